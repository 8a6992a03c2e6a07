import { IncomingMessage } from 'node:http';
import type { ExecutionContext } from '@nestjs/common';

/** Whose request it is: set by the guard, after the key was checked. */
export interface Caller {
  /** `api_keys.id`, an int64 in decimal. */
  keyId: string;
}

/** A request as it travels through the service. */
export class Request extends IncomingMessage {
  declare method: string;
  declare url: string;
  /** The client's `X-Request-Id` where it is well-formed and holds no API key, else one made here. */
  id = '';
  /** `performance.now()` when its headers had arrived, in milliseconds. */
  receivedAt = 0;
  /** The pattern of its route, such as `/v1/pets/:petId`, where it has one. */
  routePath?: string = undefined;
  /** The values of the pattern's parameters, where Nest looks for them. */
  params?: Record<string, string> = undefined;
  caller?: Caller = undefined;
  /** Whether its handler has asked for the body. */
  isBodyRead = false;
  /** Where its body turned out to be malformed, or late: answers that, once its handler asks for the body. */
  refuseBody?: () => void = undefined;
  /** The status that it was answered with past its handler: its body was malformed or late, or the answer overdue. */
  refusedWith?: number = undefined;
}

/** The request that a guard or a parameter's decorator is asked about. Nest's `switchToHttp` makes three functions. */
export function requestOf(context: ExecutionContext): Request {
  return context.getArgByIndex(0);
}
