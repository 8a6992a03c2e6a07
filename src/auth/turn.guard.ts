import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Request, Response } from '../http/express-classes.js';
import { HttpLimits } from '../http/limits.js';

/** The requests of one key for one operation. */
interface Queue {
  name: string;
  /** Requests in their handlers. */
  running: number;
  /** Lets in one request each. */
  waiting: (() => void)[];
}

/**
 * Lets {@link HttpLimits.handlers} requests with a key into their handlers at a time. Each key has a queue for each
 * operation. The queues take turns, and one may have all places while no other request waits. Requests of a queue below its
 * share go in at once: they do not wait for handlers of others, which may hang, for example if a table is locked.
 */
@Injectable()
export class TurnGuard implements CanActivate {
  private running = 0;
  /** Those that are in use. */
  private readonly queues = new Map<string, Queue>();
  /** Those in which requests wait, in the order of their turns. */
  private readonly turns = new Set<Queue>();

  constructor(private readonly limits: HttpLimits) {}

  get load(): { running: number; waiting: number } {
    const waiting = [...this.turns].reduce((sum, queue) => sum + queue.waiting.length, 0);
    return { running: this.running, waiting };
  }

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const { user, method, route, socket } = context.getArgByIndex<Request>(0);
    if (user === undefined) {
      return true;
    }
    if (socket.destroyed) {
      // Nobody would get the response, so the handler is not called.
      return new Promise(() => {});
    }
    const response = context.getArgByIndex<Response>(1);
    const name = `${user.keyId} ${method} ${route.path}`;
    const queue = this.queues.get(name) ?? { name, running: 0, waiting: [] };
    this.queues.set(name, queue);
    const share = this.limits.handlers / this.queues.size;
    if (this.running < this.limits.handlers || queue.running < share) {
      this.enter(queue, response);
      return true;
    }
    return this.wait(queue, response);
  }

  private wait(queue: Queue, response: Response): Promise<boolean> {
    return new Promise((resolve) => {
      const letIn = () => {
        this.enter(queue, response);
        resolve(true);
      };
      response.onceClosed.push(() => {
        if (queue.waiting.includes(letIn)) {
          queue.waiting.splice(queue.waiting.indexOf(letIn), 1);
          this.forgetUnused(queue);
        }
      });
      queue.waiting.push(letIn);
      this.turns.add(queue);
    });
  }

  private enter(queue: Queue, response: Response): void {
    this.running += 1;
    queue.running += 1;
    response.onceEnded.push(() => {
      this.running -= 1;
      queue.running -= 1;
      this.forgetUnused(queue);
      this.letNextIn();
    });
  }

  private letNextIn(): void {
    for (const queue of this.turns) {
      if (this.running >= this.limits.handlers) {
        return;
      }
      const letIn = queue.waiting.shift();
      this.turns.delete(queue);
      if (queue.waiting.length > 0) {
        this.turns.add(queue);
      }
      letIn?.();
    }
  }

  private forgetUnused({ name, running, waiting }: Queue): void {
    if (running === 0 && waiting.length === 0) {
      this.queues.delete(name);
    }
  }
}
