const CHALLENGE = 'Bearer realm="animal-store"';

/** Seconds (RFC 9110, section 10.2.3). */
const RETRY_SOON = { 'Retry-After': '1' };

/**
 * Every code with its HTTP status, and headers of every such response. Codes are stable and never reused. Put a special
 * code before the last one of its status, which Nest's own errors get, but for the statuses that error.filter.ts names.
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

/** Why a response is 503, for the metric and the log: set where the error is made. docs/operations.md describes each. */
export type UnavailableCause =
  | 'no_session'
  | 'connection_lost'
  | 'database_slow'
  | 'refused'
  | 'read_only'
  | 'disk_full'
  | 'conflict'
  | 'overdue'
  | 'over_share'
  | 'stopping'
  | 'not_ready'
  | 'other';

/**
 * An error for the client, whose `message` never contains a stack trace, SQL or a message of the database driver. The
 * `cause` is for the log, and so is what a 503 is `because` of. The `headers` are in addition to those of the code.
 */
export class ApiError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly options: {
      cause?: unknown;
      because?: UnavailableCause;
      headers?: Record<string, string>;
    } = {},
  ) {
    super(message, options);
  }
}

/** The error of a request that waited too long for its turn, or whose API key has too many. */
export const overloaded = (because: 'overdue' | 'over_share') =>
  new ApiError('unavailable', 'The service is overloaded; try again.', { because });
