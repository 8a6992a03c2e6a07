import { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { ExecutionContext } from '@nestjs/common';
import express from 'express';
import type { ApiError } from '../errors/api-error.js';

/** Whose request it is: set by the guard, after the key was checked. */
export interface Caller {
  /** `api_keys.id`, an int64 in decimal. */
  keyId: string;
}

/** Its type has what Express adds; {@link Request} has it at run time. */
const ExpressRequest = IncomingMessage as unknown as Pick<
  typeof IncomingMessage,
  keyof typeof IncomingMessage
> &
  (new (socket: Socket) => express.Request);

/**
 * A request as it travels through the service. Node constructs it with Express's members on its prototypes, so that
 * Express has no prototype to set: on V8 before version 13 that slows down all that follows.
 */
export class Request extends ExpressRequest {
  declare method: string;
  declare url: string;
  /** The client's `X-Request-Id` where it is well-formed and holds no API key, else one made here. */
  id = '';
  /** `performance.now()` when its headers had arrived, in milliseconds. */
  receivedAt = 0;
  caller?: Caller = undefined;
  /** Why the body cannot be read, as soon as that is known. */
  bodyError?: ApiError = undefined;
  /** Is told of {@link bodyError}, if the handler waits for the body. */
  onBodyError?: (error: ApiError) => void = undefined;

  failBody(error: ApiError): void {
    this.bodyError ??= error;
    this.onBodyError?.(this.bodyError);
  }
}

Object.setPrototypeOf(Request.prototype, express.request);

/** The request that a guard or a parameter's decorator is asked about. Nest's `switchToHttp` makes three functions. */
export function requestOf(context: ExecutionContext): Request {
  return context.getArgByIndex(0);
}
