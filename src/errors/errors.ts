import { HTTP_LIMITS } from '../http/limits.js';

/**
 * Every error the service can respond with: its code and the HTTP status that goes with it. Codes are stable and never
 * reused; a client may branch on them.
 *
 * `retryAfter` is the response's `Retry-After` in seconds (RFC 9110, section 10.2.3); that of `rate_limited` is
 * computed. `when` says to a person what has happened, in Markdown.
 */
export const ERRORS = {
  invalid_json: { status: 400, when: 'The body is not JSON, or its bytes are not UTF-8.' },
  invalid_request: {
    status: 400,
    when: 'A field, parameter or cursor is missing or invalid, or the request is not well-formed HTTP.',
  },
  missing_api_key: { status: 401, when: 'No key was sent.' },
  invalid_api_key: { status: 401, when: 'The key is malformed, unknown, revoked or expired.' },
  pet_not_found: { status: 404, when: 'There is no such animal.' },
  route_not_found: {
    status: 404,
    when: 'There is no such path. Paths are case-sensitive and have no trailing slash.',
  },
  method_not_allowed: { status: 405, when: 'The path does not support the method.' },
  request_timeout: { status: 408, when: 'The request did not arrive in time.' },
  idempotency_key_in_use: {
    status: 409,
    retryAfter: 1,
    when: 'The first request with this `Idempotency-Key` is still in progress.',
  },
  payload_too_large: {
    status: 413,
    when: `The body is larger than ${HTTP_LIMITS.bodyBytes / 1024} KiB, or has more than ${HTTP_LIMITS.bodyChunks} chunks.`,
  },
  unsupported_media_type: {
    status: 415,
    when: '`Content-Type` is not `application/json` in UTF-8, or the body has a content coding such as gzip.',
  },
  idempotency_key_reused: {
    status: 422,
    when: 'The `Idempotency-Key` was used with a different body.',
  },
  rate_limited: {
    status: 429,
    when: 'The API key exceeded its limit of requests per minute, if the service has one.',
  },
  headers_too_large: {
    status: 431,
    when: `The URL and headers are larger than ${HTTP_LIMITS.headerBytes / 1024} KiB, or there are more than ${HTTP_LIMITS.headerFields} header fields.`,
  },
  internal_error: { status: 500, when: 'The service failed.' },
  unavailable: {
    status: 503,
    retryAfter: 1,
    when: 'The database cannot be reached, or the service is overloaded or stopping.',
  },
} as const satisfies Record<string, { status: number; retryAfter?: number; when: string }>;

export type ErrorCode = keyof typeof ERRORS;

/** The Error body (interface, part 2). */
export interface ErrorBody {
  code: ErrorCode;
  message: string;
  status: number;
}

/** @returns the Error body of `code`, its `status` taken from the table. */
export function errorBody(code: ErrorCode, message: string): ErrorBody {
  return { code, message, status: ERRORS[code].status };
}
