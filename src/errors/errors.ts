const CHALLENGE = 'Bearer realm="animal-store"';

/** Seconds (RFC 9110, section 10.2.3). */
const RETRY_SOON = { 'Retry-After': '1' };

/**
 * Every error the service can respond with: its code, the HTTP status that goes with it, and the headers that every
 * such response has. Codes are stable and never reused; a client may branch on them.
 */
export const ERRORS = {
  invalid_json: { status: 400 },
  invalid_request: { status: 400 },
  missing_api_key: { status: 401, headers: { 'WWW-Authenticate': CHALLENGE } },
  invalid_api_key: {
    status: 401,
    headers: { 'WWW-Authenticate': `${CHALLENGE}, error="invalid_token"` },
  },
  pet_not_found: { status: 404 },
  route_not_found: { status: 404 },
  method_not_allowed: { status: 405 },
  request_timeout: { status: 408 },
  idempotency_key_in_use: { status: 409, headers: RETRY_SOON },
  payload_too_large: { status: 413 },
  unsupported_media_type: { status: 415 },
  idempotency_key_reused: { status: 422 },
  rate_limited: { status: 429 },
  headers_too_large: { status: 431 },
  internal_error: { status: 500 },
  unavailable: { status: 503, headers: RETRY_SOON },
} as const satisfies Record<string, { status: number; headers?: Record<string, string> }>;

export type ErrorCode = keyof typeof ERRORS;
