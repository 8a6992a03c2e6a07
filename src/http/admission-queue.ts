import { HTTP_LIMITS } from './limits.js';

/**
 * Lets a bounded number of requests into their handlers at a time, in the order in which they came. A request holds more
 * memory in its handler than in the queue: with hundreds in handlers at once, V8 copies most of its young generation at
 * each collection, and the service does two thirds of what it could (docs/reliability.md, ten times the load).
 */
export class AdmissionQueue {
  /** Requests in their handlers. */
  private handled = 0;
  private waiting: { handle: () => void; since: number }[] = [];

  /** Whether {@link HTTP_LIMITS.requests} are waiting or in their handlers. */
  get isFull(): boolean {
    return this.handled + this.waiting.length >= HTTP_LIMITS.requests;
  }

  /** Calls `handle` when it is its turn; {@link leave} is to follow. */
  enter(handle: () => void): void {
    this.waiting.push({ handle, since: performance.now() });
    this.letIn();
  }

  /** A handler has its response. {@link letIn} is to follow, once for all responses that are sent together. */
  leave(): void {
    this.handled -= 1;
  }

  letIn(): void {
    while (this.handled < HTTP_LIMITS.handled && this.waiting.length > 0) {
      this.letInNext();
    }
  }

  /** Lets in all that have waited long: what those in handlers wait for may be nothing that these need. */
  letInOverdue(now: number): void {
    while (now - (this.waiting[0]?.since ?? now) > HTTP_LIMITS.queueTime) {
      this.letInNext();
    }
  }

  private letInNext(): void {
    this.handled += 1;
    this.waiting.shift()!.handle();
  }
}
