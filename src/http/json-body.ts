import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { parse } from 'lossless-json';
import { ApiError } from '../errors/api-error.js';
import { int64FromJson } from '../int64.js';
import { HTTP_LIMITS } from './limits.js';
import { type Request, requestOf } from './request.js';

/**
 * The request's JSON body as a handler's argument, for the ValidationPipe: an object of `application/json` in UTF-8,
 * without a content coding. A number is a bigint if its exact value is an int64, otherwise NaN. If a key is repeated,
 * its last value counts, as with JSON.parse.
 *
 * It is read here, after the guard, and not by a middleware, so that a request without a key is rejected before its
 * body is read.
 *
 * @throws ApiError `unsupported_media_type`, `payload_too_large`, `invalid_json` or `request_timeout`. Or
 *   `invalid_request` if the body is not an object, is nested deeper than the limit, is not well-formed HTTP, or is
 *   incomplete when the connection ends.
 */
export const JsonBody = createParamDecorator(async (_data: unknown, context: ExecutionContext) => {
  const request = requestOf(context);
  requireJson(request);
  const body = parseJson(await readBody(request));
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ApiError('invalid_request', 'The body must be a JSON object.');
  }
  return body;
});

function requireJson({ bodyError, headers }: Request): void {
  const type = headers['content-type'];
  const isEmpty =
    headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
  if (type === undefined ? !isEmpty : !isUtf8Json(type)) {
    throw new ApiError(
      'unsupported_media_type',
      'The body must be application/json in UTF-8: send Content-Type: application/json.',
    );
  }
  const coding = headers['content-encoding'] || 'identity';
  const transfer = headers['transfer-encoding'] ?? 'chunked';
  if (coding.toLowerCase() !== 'identity' || transfer.toLowerCase() !== 'chunked') {
    // Node may have rejected the body already: with some codings, its end is unknown (RFC 9112, section 6.3).
    if (bodyError !== undefined) {
      throw bodyError;
    }
    throw new ApiError(
      'unsupported_media_type',
      'The body must be sent without a coding: omit Content-Encoding, and every Transfer-Encoding except chunked.',
      { headers: { 'Accept-Encoding': 'identity' } },
    );
  }
}

/**
 * Whether the media type is `application/json` and each `charset` among its parameters is UTF-8 (RFC 9110, section
 * 8.3.1). Two Content-Type headers, which the server joins with a comma, do not match.
 */
function isUtf8Json(contentType: string): boolean {
  const type = JSON_TYPE.exec(contentType)?.[0];
  if (type === undefined) {
    return false;
  }
  PARAMETER.lastIndex = type.length;
  while (PARAMETER.lastIndex < contentType.length) {
    const parameter = PARAMETER.exec(contentType);
    if (parameter === null) {
      return false;
    }
    const [, name, token, quoted = ''] = parameter;
    const value = token ?? quoted.replaceAll(/\\(.)/g, '$1');
    if (name?.toLowerCase() === 'charset' && !/^utf-?8$/i.test(value)) {
      return false;
    }
  }
  return true;
}

const JSON_TYPE = /^application\/json[ \t]*/i;

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";

/**
 * A semicolon, and a parameter or nothing (RFC 9110, section 5.6.6). Adjacent parts cannot match the same character, so
 * the time of a match is linear in the length of the text.
 */
const PARAMETER = new RegExp(
  `;[ \\t]*(?:(${TOKEN})=(?:(${TOKEN})|"((?:[^"\\\\]|\\\\.)*)")[ \\t]*)?`,
  'y',
);

/**
 * Rejects if the body is over the limit, malformed or late, or if the connection ends before the body does. The
 * controller's method starts only after the whole body has been read, so a request that gets 408 has changed nothing.
 */
function readBody(request: Request): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const cutShort = (cause?: Error) =>
      reject(new ApiError('invalid_request', 'The body ended before its length.', { cause }));
    if (request.bodyError !== undefined) {
      reject(request.bodyError);
      return;
    }
    if (request.readableEnded) {
      resolve(Buffer.alloc(0));
      return;
    }
    if (request.destroyed) {
      cutShort();
      return;
    }
    request.onBodyError = reject;
    const chunks: Buffer[] = [];
    let bytes = 0;
    const refuse = (what: string) => {
      request.removeAllListeners('data').resume();
      reject(new ApiError('payload_too_large', `The body is over ${what}.`));
    };
    const { bodyBytes, bodyChunks } = HTTP_LIMITS;
    const isChunked = request.headers['transfer-encoding'] !== undefined;
    if (Number(request.headers['content-length'] ?? 0) > bodyBytes) {
      refuse(`${bodyBytes} bytes`);
      return;
    }
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bodyBytes) {
        refuse(`${bodyBytes} bytes`);
      } else if (chunks.push(chunk) > bodyChunks && isChunked) {
        refuse(`${bodyChunks} chunks`);
      }
    });
    request.once('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    request.once('error', cutShort);
  });
}

/** Skips a leading BOM, and rejects bytes that are not UTF-8 (RFC 8259, section 8.1). */
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** @throws ApiError `invalid_json`; `invalid_request` if the text is nested deeper than the limit. */
export function parseJson(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch (cause) {
    throw new ApiError('invalid_json', 'The body is not UTF-8.', { cause });
  }
  requireShallow(text);
  try {
    return parse(text, null, {
      parseNumber: (digits) => int64FromJson(digits) ?? NaN,
      onDuplicateKey: ({ newValue }) => newValue,
    });
  } catch (cause) {
    throw new ApiError('invalid_json', 'The body is not JSON.', { cause });
  }
}

/** Checks the depth before the parser runs, because the parser is recursive. */
function requireShallow(text: string): void {
  let depth = 0;
  let isInString = false;
  for (let i = 0; i < text.length; i += 1) {
    const character = text[i];
    if (isInString) {
      if (character === '\\') {
        i += 1;
      } else if (character === '"') {
        isInString = false;
      }
    } else if (character === '"') {
      isInString = true;
    } else if (character === '[' || character === '{') {
      depth += 1;
      if (depth > HTTP_LIMITS.jsonDepth) {
        throw new ApiError(
          'invalid_request',
          `The body is nested deeper than ${HTTP_LIMITS.jsonDepth} levels.`,
        );
      }
    } else if (character === ']' || character === '}') {
      depth -= 1;
    }
  }
}
