import { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { ExecutionContext } from '@nestjs/common';
import express from 'express';

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
  /** Whether its handler has asked for the body. */
  isBodyRead = false;
  /** Where its body turned out to be malformed, or late: answers that, once its handler asks for the body. */
  refuseBody?: () => void = undefined;
  /** The status that it was answered with past its handler: its body was malformed or late, or the answer overdue. */
  refusedWith?: number = undefined;
}

Object.setPrototypeOf(Request.prototype, express.request);

/** The request that a guard or a parameter's decorator is asked about. Nest's `switchToHttp` makes three functions. */
export function requestOf(context: ExecutionContext): Request {
  return context.getArgByIndex(0);
}
