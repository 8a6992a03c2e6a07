import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Request, Response } from '../http/express-classes.js';
import { HttpLimits } from '../http/limits.js';

interface Queue {
  /** That its requests in handlers have. */
  places: number;
  waiting: (() => void)[];
}

/**
 * Lets requests with a key into their handlers, which have {@link HttpLimits.handlers} places. Each key has a queue for each
 * operation. The queues take turns, and one may have all places while no other request waits. Requests of a queue below its
 * share go in at once: they do not wait for handlers of others, which may hang, for example if a table is locked.
 *
 * A request takes a place for each {@link HttpLimits.placeBytes} of the largest response of its queue so far, so that few
 * large ones are made at a time, and others wait for milliseconds.
 */
@Injectable()
export class TurnGuard implements CanActivate {
  readonly load = { places: 0, waiting: 0 };
  /** Those in use, in the order of their turns. */
  private readonly queues = new Map<string, Queue>();
  /** The places of a request, for queues with large responses. */
  private readonly sizes = new Map<string, number>();

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
    const queue = this.queues.get(name) ?? { places: 0, waiting: [] };
    this.queues.set(name, queue);
    const response = context.getArgByIndex<Response>(1);
    const enter = () => {
      const places = this.sizes.get(name) ?? 1;
      this.load.places += places;
      queue.places += places;
      response.onceEnded.push(() => {
        this.load.places -= places;
        queue.places -= places;
        this.noteSize(name, Number(response.getHeader('Content-Length')));
        this.forgetUnused(name, queue);
        this.letNextIn();
      });
    };
    const share = this.limits.handlers / this.queues.size;
    if (this.load.places < this.limits.handlers || queue.places < share) {
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
      response.onceClosed.push(() => {
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
      if (this.load.waiting === 0 || this.load.places >= this.limits.handlers) {
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

  private noteSize(name: string, bytes: number): void {
    const places = Math.min(Math.ceil(bytes / this.limits.placeBytes), this.limits.handlers / 4);
    if (places > (this.sizes.get(name) ?? 1)) {
      this.sizes.set(name, places);
      setTimeout(() => this.sizes.delete(name), this.limits.sizeTimeout).unref();
    }
  }

  private forgetUnused(name: string, { places, waiting }: Queue): void {
    if (places === 0 && waiting.length === 0) {
      this.queues.delete(name);
    }
  }
}
