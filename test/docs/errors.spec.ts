import { ERRORS } from '../../src/errors/errors.js';

describe('error codes', () => {
  it('are those that clients know, with their statuses', () => {
    const statuses = Object.entries(ERRORS).map(([code, { status }]) => [code, status]);
    expect(Object.fromEntries(statuses)).toEqual({
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
    });
  });
});
