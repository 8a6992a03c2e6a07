import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import type { Request } from '../http/express-classes.js';

/**
 * The request's `Idempotency-Key`, if any: 1 to 255 visible ASCII characters, bare or as a quoted string (RFC 8941, section
 * 3.3.3). A bare key does not begin with `"`. Two headers, which the server joins with a comma and a space, are invalid.
 */
export const IdempotencyKeyHeader = createParamDecorator((_data, context: ExecutionContext) => {
  const { headers, body } = context.switchToHttp().getRequest<Request>();
  const header = headers['idempotency-key'];
  // A pipe rejects a missing body, after this.
  if (header === undefined || body === undefined) {
    return undefined;
  }
  const text = String(header);
  const [, quoted] = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"$/.exec(text) ?? [];
  const key = quoted?.replaceAll(/\\(.)/g, '$1') ?? text;
  if (!/^[\x21-\x7e]{1,255}$/.test(key) || (quoted === undefined && key.startsWith('"'))) {
    throw new ApiError(
      'invalid_request',
      'Idempotency-Key: must be 1 to 255 visible ASCII characters, bare or quoted, sent once',
    );
  }
  return key;
});
