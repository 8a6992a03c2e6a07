import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import type { Request, Response } from '../http/express-classes.js';
import { HttpLimits } from '../http/limits.js';

interface Usage {
  requests: number;
  /** The `Content-Length`s of responses that handlers have ended and clients have not read. */
  unread: number;
}

/**
 * Limits the requests with a key that have no complete response, and the bytes of their responses that clients have not
 * read: {@link HttpLimits.requests} and {@link HttpLimits.unreadBytes}, at most half of each for one key.
 */
@Injectable()
export class AdmissionGuard implements CanActivate {
  private readonly all: Usage = { requests: 0, unread: 0 };
  private readonly byKey = new Map<string, Usage>();

  constructor(private readonly limits: HttpLimits) {}

  canActivate(context: ExecutionContext): boolean {
    const { user, socket } = context.getArgByIndex<Request>(0);
    if (user === undefined || socket.destroyed) {
      return true;
    }
    const own = this.byKey.get(user.keyId) ?? { requests: 0, unread: 0 };
    if (this.hasTaken(own, 0.5) || this.hasTaken(this.all, 1)) {
      throw new ApiError('unavailable', 'The service is overloaded; try again.');
    }
    this.byKey.set(user.keyId, own);
    const usages = [own, this.all];
    usages.forEach((usage) => (usage.requests += 1));
    // Not a set of responses: those in it would survive collections of garbage, which takes a third of a list's time.
    let bytes = 0;
    const response = context.getArgByIndex<Response>(1);
    response.onceEnded.push(() => {
      bytes = Number(response.getHeader('Content-Length') ?? 0);
      usages.forEach((usage) => (usage.unread += bytes));
    });
    response.onceClosed.push(() => {
      usages.forEach((usage) => (usage.requests -= 1));
      usages.forEach((usage) => (usage.unread -= bytes));
      if (own.requests === 0) {
        this.byKey.delete(user.keyId);
      }
    });
    return true;
  }

  private readonly hasTaken = ({ requests, unread }: Usage, share: number) =>
    requests >= share * this.limits.requests || unread >= share * this.limits.unreadBytes;
}
