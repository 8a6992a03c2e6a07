import { errorBody, ERRORS } from '../../src/errors/errors.js';

/** Every code with its status, as clients know them. */
const STATUS_OF_CODE: Record<string, number> = {
  invalid_json: 400,
  invalid_request: 400,
  missing_api_key: 401,
  invalid_api_key: 401,
  pet_not_found: 404,
  route_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  idempotency_key_in_use: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  idempotency_key_reused: 422,
  rate_limited: 429,
  headers_too_large: 431,
  internal_error: 500,
  unavailable: 503,
};

describe('error codes', () => {
  it.each(Object.entries(ERRORS))('%s keeps its status', (code, { status }) => {
    expect(status).toBe(STATUS_OF_CODE[code]);
  });

  it.each(Object.entries(ERRORS))(
    '%s has a body of code, message and status',
    (code, { status }) => {
      expect(errorBody(code as keyof typeof ERRORS, 'A reason.')).toEqual({
        code,
        message: 'A reason.',
        status,
      });
    },
  );

  it('unavailable says when to come again', () => {
    expect(ERRORS.unavailable.retryAfter).toBeGreaterThan(0);
  });
});
