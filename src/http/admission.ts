import { Injectable } from '@nestjs/common';
import type { NextFunction } from 'express';
import { ApiError } from '../errors/api-error.js';
import { PROBES } from './access-log.js';
import type { Request, Response } from './express-classes.js';
import { HttpLimits } from './limits.js';

/**
 * Lets {@link HttpLimits.handled} requests into their handlers at a time, in the order in which they came. With hundreds,
 * V8 copies most of its young generation at each collection, and throughput falls to two thirds. They may all wait for
 * something that others do not need, such as a locked row, so {@link HttpLimits.queueTime} lets others in too.
 */
@Injectable()
export class Admission {
  private handled = 0;
  /** The requests that wait, and since when by `performance.now()`, in the order in which they came. */
  private readonly waiting: { letIn: () => void; since: number }[] = [];
  /** Runs until the first of them has waited too long. A timer for each would cost a third of the throughput. */
  private overdue?: NodeJS.Timeout;

  constructor(private readonly limits: HttpLimits) {}

  get load(): { handled: number; waiting: number } {
    return { handled: this.handled, waiting: this.waiting.length };
  }

  /** Liveness and readiness need no admission. */
  readonly middleware = ({ url }: Request, response: Response, next: NextFunction): void => {
    if (url.startsWith(PROBES)) {
      next();
    } else if (this.handled + this.waiting.length >= this.limits.requests) {
      next(new ApiError('unavailable', 'The service is overloaded; try again.'));
    } else if (this.handled < this.limits.handled) {
      this.enter(response, next);
    } else {
      const letIn = () => (response.req.socket.destroyed ? undefined : this.enter(response, next));
      this.waiting.push({ letIn, since: performance.now() });
      this.overdue ??= setTimeout(() => this.letInOverdue(), this.limits.queueTime).unref();
    }
  };

  private enter(response: Response, next: NextFunction): void {
    this.handled += 1;
    response.once('close', () => {
      this.handled -= 1;
      while (this.handled < this.limits.handled && this.waiting.length > 0) {
        this.waiting.shift()!.letIn();
      }
    });
    next();
  }

  private letInOverdue(): void {
    const since = performance.now() - this.limits.queueTime;
    while (this.waiting.length > 0 && this.waiting[0]!.since <= since) {
      this.waiting.shift()!.letIn();
    }
    const next = this.waiting[0];
    this.overdue =
      next && setTimeout(() => this.letInOverdue(), Math.max(1, next.since - since)).unref();
  }
}
