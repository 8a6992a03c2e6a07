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
  /** What lets each waiting request in, in the order in which they came. */
  private readonly waiting = new Set<() => void>();

  constructor(private readonly limits: HttpLimits) {}

  get load(): { handled: number; waiting: number } {
    return { handled: this.handled, waiting: this.waiting.size };
  }

  /** Liveness and readiness need no admission. */
  readonly middleware = ({ url }: Request, response: Response, next: NextFunction): void => {
    if (url.startsWith(PROBES)) {
      next();
    } else if (this.handled + this.waiting.size >= this.limits.requests) {
      next(new ApiError('unavailable', 'The service is overloaded; try again.'));
    } else if (this.handled < this.limits.handled) {
      this.enter(response, next);
    } else {
      const letIn = () => {
        clearTimeout(overdue);
        this.waiting.delete(letIn);
        if (!response.req.socket.destroyed) {
          this.enter(response, next);
        }
      };
      const overdue = setTimeout(letIn, this.limits.queueTime).unref();
      this.waiting.add(letIn);
    }
  };

  private enter(response: Response, next: NextFunction): void {
    this.handled += 1;
    response.once('close', () => {
      this.handled -= 1;
      while (this.handled < this.limits.handled && this.waiting.size > 0) {
        const [letIn] = this.waiting;
        letIn!();
      }
    });
    next();
  }
}
