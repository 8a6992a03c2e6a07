import { HTTP_LIMITS } from './limits.js';

/**
 * Lets {@link HTTP_LIMITS.handled} requests into their handlers at a time, in the order in which they came, and more
 * only if they have waited too long. A request holds more memory in its handler than in the queue. With hundreds of
 * requests in handlers, V8 copies most of its young generation at each collection, and throughput falls to two thirds.
 */
export class AdmissionQueue {
  /** Requests in their handlers. */
  private handled = 0;
  private waiting: { handle: () => void; since: number }[] = [];

  /** Whether {@link HTTP_LIMITS.requests} are waiting or in their handlers. */
  get isFull(): boolean {
    return this.handled + this.waiting.length >= HTTP_LIMITS.requests;
  }

  /** How many requests are in their handlers, and how many wait. */
  get load(): { handled: number; waiting: number } {
    return { handled: this.handled, waiting: this.waiting.length };
  }

  /** Calls `handle` when it is its turn. The caller must call {@link leave} when the request gets its response. */
  enter(handle: () => void): void {
    this.waiting.push({ handle, since: performance.now() });
    this.letIn();
  }

  /** The caller must then call {@link letIn}, once for all responses that are sent together. */
  leave(): void {
    this.handled -= 1;
  }

  letIn(): void {
    while (this.handled < HTTP_LIMITS.handled && this.waiting.length > 0) {
      this.letInNext();
    }
  }

  /**
   * Lets in all requests that have waited too long. The requests in handlers may all wait for something that these do
   * not need, such as a locked row.
   */
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
