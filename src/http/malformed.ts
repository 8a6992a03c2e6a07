import { ApiError } from '../errors/api-error.js';
import type { Request } from './express-classes.js';
import type { HttpLimits } from './limits.js';

/** An error of Node's HTTP server: `HPE_…` from its parser, `ERR_HTTP_REQUEST_TIMEOUT` from its time limits. */
export interface InputError extends NodeJS.ErrnoException {
  /** What the parser read last. It failed after {@link bytesParsed} bytes. */
  rawPacket?: Buffer;
  bytesParsed?: number;
}

const ONE_OF_VERSIONS = 'The version of HTTP must be 1.1 or 1.0.';
const LINE_ENDS = 'Lines of HTTP must end with CR LF.';

const NODE_ERRORS: Readonly<Record<string, ConstructorParameters<typeof ApiError>>> = {
  HPE_INVALID_METHOD: [
    'invalid_request',
    'The request is not well-formed HTTP, or its method is unknown.',
  ],
  HPE_INVALID_VERSION: ['invalid_request', ONE_OF_VERSIONS],
  HPE_CR_EXPECTED: ['invalid_request', LINE_ENDS],
  HPE_STRICT: ['invalid_request', LINE_ENDS],
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The request line and headers are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [
    'payload_too_large',
    "The body's chunk extensions are too large.",
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time.'],
};

/** The error for input that Node's HTTP server rejected. */
export function rejectedByNode({ code = '', rawPacket, bytesParsed = 0 }: InputError): ApiError {
  // Node has the same code for a request line that ends with LF alone as for an unknown version.
  const endsWithLf = code === 'HPE_INVALID_VERSION' && rawPacket?.[bytesParsed - 1] === 0x0a;
  return new ApiError(
    ...(NODE_ERRORS[endsWithLf ? 'HPE_CR_EXPECTED' : code] ?? [
      'invalid_request',
      'The request is not well-formed HTTP.',
    ]),
  );
}

/** The error of a request that Node accepted although its head is malformed; `undefined` if it is not. */
export function malformedHead(
  { rawHeaders, httpVersion, headers }: Request,
  { headerFields }: HttpLimits,
): ApiError | undefined {
  if (rawHeaders.length > 2 * headerFields) {
    const message = `A request may have at most ${headerFields} header fields.`;
    return new ApiError('headers_too_large', message);
  }
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return new ApiError('invalid_request', ONE_OF_VERSIONS);
  }
  // RFC 9112, section 3.2; RFC 3986, section 3.2. Node joins repeated headers with a comma and a space.
  if (httpVersion === '1.1' && !/^[\w.~!$&'()*+,;=:%[\]-]*$/.test(headers.host ?? ' ')) {
    return new ApiError('invalid_request', 'A request needs one valid Host header.');
  }
  return undefined;
}
