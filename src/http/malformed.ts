import { ApiError } from '../errors/api-error.js';
import type { Request } from './express-classes.js';
import type { HttpLimits } from './limits.js';

const ONE_OF_VERSIONS = 'The version of HTTP must be 1.1 or 1.0.';

/** Node's codes: `HPE_…` from its parser, `ERR_HTTP_REQUEST_TIMEOUT` from its time limits. */
const NODE_ERRORS: Readonly<Record<string, ConstructorParameters<typeof ApiError>>> = {
  HPE_INVALID_METHOD: [
    'invalid_request',
    'The request is not well-formed HTTP, or its method is unknown.',
  ],
  HPE_INVALID_VERSION: ['invalid_request', ONE_OF_VERSIONS],
  HPE_CR_EXPECTED: ['invalid_request', 'Lines of HTTP must end with CR LF.'],
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The request line and headers are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [
    'payload_too_large',
    "The body's chunk extensions are too large.",
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time.'],
};

/** The error for input that Node's HTTP server rejected with the error code `code`. */
export const rejectedByNode = (code: string): ApiError =>
  new ApiError(
    ...(NODE_ERRORS[code] ?? ['invalid_request', 'The request is not well-formed HTTP.']),
  );

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
  if (httpVersion === '1.1' && !isHost(headers.host)) {
    return new ApiError('invalid_request', 'A request needs one valid Host header.');
  }
  return undefined;
}

/**
 * Whether `host` is present and has only the characters of a host and port (RFC 9112, section 3.2; RFC 3986, section
 * 3.2). Node joins repeated headers with a comma and a space, so they do not match.
 */
function isHost(host: string | undefined): boolean {
  return host !== undefined && /^[\w.~!$&'()*+,;=:%[\]-]*$/.test(host);
}
