import { type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AuthGuard } from '@nestjs/passport';
import { ApiError } from '../errors/api-error.js';
import type { Request } from '../http/express-classes.js';
import { ApiKeyVerifier, tokenOf } from './api-key-verifier.js';
import type { BearerRequest } from './bearer.strategy.js';
import { Public } from './public.decorator.js';

/** Rejects requests without a valid API key, but for those of {@link Public} handlers. passport checks keys not remembered. */
@Injectable()
export class BearerGuard extends AuthGuard('bearer') {
  constructor(
    private readonly reflector: Reflector,
    private readonly verifier: ApiKeyVerifier,
  ) {
    super({ session: false });
  }

  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const targets = [context.getHandler(), context.getClass()];
    if (context.getType() !== 'http' || this.reflector.getAllAndOverride(Public, targets)) {
      return true;
    }
    const request = context.getArgByIndex<Request>(0);
    // The gate has looked for a remembered key already.
    request.user =
      request.keyHash === undefined ? undefined : this.verifier.recall(request.keyHash);
    return request.user !== undefined || (super.canActivate(context) as Promise<boolean>);
  }

  /** What passport gets: no query and no body, because it would accept a key in them. */
  override getRequest(context: ExecutionContext): BearerRequest {
    const original = context.getArgByIndex<Request>(0);
    const headers = { authorization: `Bearer ${bearerToken(original)}` };
    return { headers, original, verifier: this.verifier };
  }

  override handleRequest(error: unknown, user: any, _: unknown, context: ExecutionContext) {
    if (error || !user) {
      throw error || invalidKey();
    }
    return (context.getArgByIndex<Request>(0).user = user);
  }
}

/** @throws ApiError `missing_api_key` or `invalid_api_key`. */
function bearerToken({ headers: { authorization } }: Request): string {
  if (!authorization) {
    const message = 'An API key is required: send Authorization: Bearer <key>.';
    throw new ApiError('missing_api_key', message);
  }
  const token = tokenOf(authorization);
  if (token === undefined) {
    throw /^bearer\b/i.test(authorization)
      ? invalidKey()
      : invalidKey('The scheme Bearer is missing: send Authorization: Bearer <key>.');
  }
  return token;
}

const invalidKey = (message = 'The API key is not valid.') =>
  new ApiError('invalid_api_key', message);
