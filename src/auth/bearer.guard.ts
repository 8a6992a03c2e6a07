import { type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AuthGuard } from '@nestjs/passport';
import { ApiError } from '../errors/api-error.js';
import { type Caller, type Request, requestOf } from '../http/request.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { REALM } from './bearer.strategy.js';
import { IS_PUBLIC } from './public.decorator.js';

/**
 * Rejects requests without a valid API key, unless their controller is public.
 *
 * passport-http-bearer checks every key that is not remembered. It gets only the `Authorization` header of the request,
 * because it would also accept a key in the query or the body.
 */
@Injectable()
export class BearerGuard extends AuthGuard('bearer') {
  constructor(
    private readonly reflector: Reflector,
    private readonly verifier: ApiKeyVerifier,
  ) {
    super({ session: false });
  }

  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (this.reflector.get<boolean | undefined>(IS_PUBLIC, context.getClass())) {
      return true;
    }
    const request = requestOf(context);
    const caller = this.verifier.recall(bearerToken(request));
    if (caller === undefined) {
      return super.canActivate(context) as Promise<boolean>;
    }
    request.caller = caller;
    return true;
  }

  /** The part of the request that passport gets. */
  override getRequest(context: ExecutionContext) {
    const token = bearerToken(requestOf(context));
    return { headers: { authorization: `Bearer ${token}` } };
  }

  override handleRequest(
    error: unknown,
    caller: any,
    _challenge: unknown,
    context: ExecutionContext,
  ) {
    if (error) {
      throw error;
    }
    if (!caller) {
      throw invalidKey();
    }
    requestOf(context).caller = caller as Caller;
    return caller;
  }
}

/**
 * The bearer token of a request: `Bearer` in any letter case, one or more spaces, and the token (RFC 6750, section
 * 2.1).
 *
 * @throws ApiError `missing_api_key` without credentials; `invalid_api_key` if they are not a bearer token. Two
 *   `Authorization` headers, which the server joins with a comma, are not a bearer token.
 */
function bearerToken({ headers: { authorization } }: Request): string {
  if (!authorization) {
    throw new ApiError(
      'missing_api_key',
      'An API key is required: send Authorization: Bearer <key>.',
      {
        headers: { 'WWW-Authenticate': CHALLENGES.missing_api_key },
      },
    );
  }
  const [, token] = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization) ?? [];
  if (token === undefined) {
    throw invalidKey();
  }
  return token;
}

/** The `WWW-Authenticate` of a 401, by its code (RFC 6750, section 3). */
export const CHALLENGES = {
  missing_api_key: `Bearer realm="${REALM}"`,
  invalid_api_key: `Bearer realm="${REALM}", error="invalid_token"`,
} as const;

function invalidKey(): ApiError {
  return new ApiError('invalid_api_key', 'The API key is not valid.', {
    headers: { 'WWW-Authenticate': CHALLENGES.invalid_api_key },
  });
}
