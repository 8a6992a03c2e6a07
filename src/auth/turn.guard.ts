import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Request, Response } from '../http/express-classes.js';
import { HttpLimits } from '../http/limits.js';

interface Queue {
  running: number;
  waiting: (() => void)[];
}

/**
 * Lets {@link HttpLimits.handlers} requests with a key into their handlers at a time. Each key has a queue for each
 * operation. The queues take turns, and one may have all places while no other request waits. Requests of a queue below its
 * share go in at once: they do not wait for handlers of others, which may hang, for example if a table is locked.
 */
@Injectable()
export class TurnGuard implements CanActivate {
  readonly load = { running: 0, waiting: 0 };
  /** Those in use, in the order of their turns. */
  private readonly queues = new Map<string, Queue>();

  constructor(private readonly limits: HttpLimits) {}

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const { user, method, route, socket } = context.getArgByIndex<Request>(0);
    if (user === undefined) {
      return true;
    }
    if (socket.destroyed) {
      return new Promise(() => {});
    }
    const name = `${user.keyId} ${method} ${route.path}`;
    const queue = this.queues.get(name) ?? { running: 0, waiting: [] };
    this.queues.set(name, queue);
    const enter = () => {
      this.load.running += 1;
      queue.running += 1;
      context.getArgByIndex<Response>(1).onceEnded.push(() => {
        this.load.running -= 1;
        queue.running -= 1;
        this.forgetUnused(name, queue);
        this.letNextIn();
      });
    };
    const share = this.limits.handlers / this.queues.size;
    if (this.load.running < this.limits.handlers || queue.running < share) {
      enter();
      return true;
    }
    this.load.waiting += 1;
    return new Promise((resolve) => {
      const letIn = () => {
        enter();
        resolve(true);
      };
      queue.waiting.push(letIn);
      context.getArgByIndex<Response>(1).onceClosed.push(() => {
        if (queue.waiting.includes(letIn)) {
          queue.waiting.splice(queue.waiting.indexOf(letIn), 1);
          this.load.waiting -= 1;
          this.forgetUnused(name, queue);
        }
      });
    });
  }

  private letNextIn(): void {
    for (const [name, queue] of this.queues) {
      if (this.load.waiting === 0 || this.load.running >= this.limits.handlers) {
        return;
      }
      const letIn = queue.waiting.shift();
      if (letIn !== undefined) {
        this.queues.delete(name);
        this.queues.set(name, queue);
        this.load.waiting -= 1;
        letIn();
      }
    }
  }

  private forgetUnused(name: string, { running, waiting }: Queue): void {
    if (running === 0 && waiting.length === 0) {
      this.queues.delete(name);
    }
  }
}
