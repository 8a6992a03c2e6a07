import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { OpenAPIV3_1 } from 'openapi-types';
import { ApiError } from '../errors/api-error.js';
import type { Request } from './request.js';

/** The request's `Idempotency-Key` as a handler's argument, `undefined` where it has none. */
export const IdempotencyKeyHeader = createParamDecorator(
  (_data: unknown, context: ExecutionContext) =>
    readIdempotencyKey(context.switchToHttp().getRequest<Request>().headers['idempotency-key']),
);

/** The header in the OpenAPI document. A quoted key of 255 characters takes 512 at most. */
export const IDEMPOTENCY_KEY_PARAMETER: OpenAPIV3_1.ParameterObject = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    '1 to 255 visible ASCII characters, bare or as a quoted string. Sent again within 24 hours with the same body, the request creates nothing and is answered with the same animal.',
  schema: { type: 'string', minLength: 1, maxLength: 512, pattern: '^[\\x21-\\x7e]+$' },
  example: 'c4a2e7c0-9d1f-4b0a-8f52-6d1f0e1b2a3c',
};

/**
 * Reads an `Idempotency-Key`: 1 to 255 visible ASCII characters, bare or as a quoted string (RFC 8941, section
 * 3.3.3). Quoted or bare, it is the same key.
 *
 * @throws ApiError `invalid_request` for anything else, two of them included, which the server joins with a comma and a space.
 */
export function readIdempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) {
    return undefined;
  }
  const text = String(header);
  const [, quoted] = /^"((?:[\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"$/.exec(text) ?? [];
  const key = quoted?.replaceAll(/\\(.)/g, '$1') ?? (text.startsWith('"') ? '' : text);
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new ApiError(
      'invalid_request',
      'Idempotency-Key must be 1 to 255 visible ASCII characters, sent once.',
    );
  }
  return key;
}
