import { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { ExecutionContext } from '@nestjs/common';
import express from 'express';
import type { ApiError } from '../errors/api-error.js';

/** The caller of a request. The guard sets it after it has checked the key. */
export interface Caller {
  /** `api_keys.id`, an int64 in decimal. */
  keyId: string;
}

/** Node's class, with the type of Express's. At run time, {@link Request} has Express's members. */
const ExpressRequest = IncomingMessage as unknown as Pick<
  typeof IncomingMessage,
  keyof typeof IncomingMessage
> &
  (new (socket: Socket) => express.Request);

/**
 * A request. Node constructs it with Express's members on its prototypes. Otherwise Express would set the prototype of
 * each request, and before V8 13 this slows down all later accesses to it.
 */
export class Request extends ExpressRequest {
  declare method: string;
  declare url: string;
  /** The client's `X-Request-Id` if it is well-formed and contains no API key, otherwise a generated one. */
  id = '';
  /** `performance.now()` when its headers had arrived, in milliseconds. */
  receivedAt = 0;
  caller?: Caller = undefined;
  /** The reason why the body cannot be read, if that is known. */
  bodyError?: ApiError = undefined;
  /** Called with {@link bodyError}, while `JsonBody` waits for the body. */
  onBodyError?: (error: ApiError) => void = undefined;

  failBody(error: ApiError): void {
    this.bodyError ??= error;
    this.onBodyError?.(this.bodyError);
  }
}

Object.setPrototypeOf(Request.prototype, express.request);

/** The request of a guard or a parameter decorator. Nest's `switchToHttp` would create three functions. */
export function requestOf(context: ExecutionContext): Request {
  return context.getArgByIndex(0);
}
