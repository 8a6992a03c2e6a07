import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import type { Request, Response } from '../http/express-classes.js';
import { HttpLimits } from '../http/limits.js';

/**
 * Limits the requests with a key that have no complete response, and the bytes of their responses that clients have not
 * read: {@link HttpLimits.requests} and {@link HttpLimits.unreadBytes}, at most half of each for one key.
 */
@Injectable()
export class AdmissionGuard implements CanActivate {
  private total = 0;
  private readonly byKey = new Map<string, number>();
  /** The responses that handlers have ended and clients have not read. */
  private readonly unread = new Set<Response>();

  constructor(private readonly limits: HttpLimits) {}

  /** @throws ApiError `unavailable` */
  canActivate(context: ExecutionContext): boolean {
    const { user, socket } = context.getArgByIndex<Request>(0);
    if (user === undefined || socket.destroyed) {
      return true;
    }
    const { keyId } = user;
    const { requests } = this.limits;
    const own = this.byKey.get(keyId) ?? 0;
    if (this.total >= requests || own >= requests / 2 || this.hasUnread(keyId)) {
      throw new ApiError('unavailable', 'The service is overloaded; try again.');
    }
    this.total += 1;
    this.byKey.set(keyId, own + 1);
    const response = context.getArgByIndex<Response>(1);
    response.once('ended', () => this.unread.add(response));
    response.once('close', () => {
      this.unread.delete(response);
      this.total -= 1;
      const rest = this.byKey.get(keyId)! - 1;
      this.byKey.set(keyId, rest);
      if (rest === 0) {
        this.byKey.delete(keyId);
      }
    });
    return true;
  }

  /** Whether clients have not read too many bytes, those of this key or all. */
  private hasUnread(keyId: string): boolean {
    let [own, all] = [0, 0];
    // The bytes of few responses are not worth the time.
    if (this.unread.size > 64) {
      for (const { writableLength, req } of this.unread) {
        all += writableLength;
        own += req.user!.keyId === keyId ? writableLength : 0;
      }
    }
    return all >= this.limits.unreadBytes || own >= this.limits.unreadBytes / 2;
  }
}
