import { type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AuthGuard } from '@nestjs/passport';
import { ApiError } from '../errors/api-error.js';
import type { Request } from '../http/express-classes.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
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
    request.user = this.verifier.recall(bearerToken(request));
    return request.user !== undefined || (super.canActivate(context) as Promise<boolean>);
  }

  /** The part of the request that passport gets. */
  override getRequest(context: ExecutionContext) {
    const authorization = `Bearer ${bearerToken(requestOf(context))}`;
    return { headers: { authorization } };
  }

  override handleRequest(error: unknown, user: any, _: unknown, context: ExecutionContext) {
    if (error) {
      throw error;
    }
    if (!user) {
      throw invalidKey();
    }
    return (requestOf(context).user = user);
  }
}

/** Nest's `switchToHttp` would create three functions. */
const requestOf = (context: ExecutionContext): Request => context.getArgByIndex(0);

/**
 * The bearer token of a request: `Bearer` in any letter case, one or more spaces, and the token (RFC 6750, section
 * 2.1).
 *
 * @throws ApiError `missing_api_key` without credentials; `invalid_api_key` if they are not a bearer token. Two
 *   `Authorization` headers, which the server joins with a comma, are not a bearer token.
 */
function bearerToken({ headers: { authorization } }: Request): string {
  if (!authorization) {
    const message = 'An API key is required: send Authorization: Bearer <key>.';
    throw new ApiError('missing_api_key', message);
  }
  const [, token] = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization) ?? [];
  if (token === undefined) {
    throw /^bearer\b/i.test(authorization) ? invalidKey() : otherScheme();
  }
  return token;
}

const invalidKey = () => new ApiError('invalid_api_key', 'The API key is not valid.');

/** The key may be valid, but it was sent without a scheme or with another one. */
function otherScheme(): ApiError {
  const message = 'The scheme Bearer is missing: send Authorization: Bearer <key>.';
  return new ApiError('invalid_api_key', message);
}
