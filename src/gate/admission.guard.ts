import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Request, Response } from '../http/express-classes.js';
import { Gate } from './gate.js';

/** The most rows that a request counts as, whatever its `limit`: a few such requests leave places to others. */
const MOST_ROWS = 1_000;

/** Lets requests with an API key into their handlers: {@link Gate.admit}. Others do not wait. */
@Injectable()
export class AdmissionGuard implements CanActivate {
  constructor(private readonly gate: Gate) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (context.getType() !== 'http') {
      return true;
    }
    const request = context.getArgByIndex<Request>(0);
    const { user, socket, url } = request;
    if (user === undefined) {
      return true;
    }
    if (!socket.writable) {
      // Its client has left: nothing is to work for it, and nobody reads a response.
      return new Promise(() => {});
    }
    // The name may be percent-encoded.
    const limit = /limit=|%/.test(url) ? Number(request.query['limit']) : 0;
    const rows = limit > 0 ? Math.min(limit, MOST_ROWS) + 1 : 1;
    const response = context.getArgByIndex<Response>(1);
    return this.gate.admit(response, user.keyId, context.getHandler(), rows);
  }
}
