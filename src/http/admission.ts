import { HTTP_LIMITS } from './limits.js';
import type { Request } from './request.js';
import type { Response } from './response.js';

/**
 * Counts the requests under way, and lets a bounded number of them in to their handlers at a time, in the order in which
 * they came.
 *
 * A request holds more memory in its handler than at the door. With hundreds in handlers at once, V8's young generation
 * is largely in use whenever it is full: what is in use is copied, and then takes the whole heap's collection to go.
 */
export class Admission {
  /** Requests that were accepted and not answered yet. */
  private underWay = 0;
  /** Those of them that are not let in yet. */
  private readonly waiting: Response[] = [];
  private isOpen = true;
  private lateness?: NodeJS.Timeout;

  /** @param start hands a request to its handler. */
  constructor(private readonly start: (request: Request, response: Response) => void) {}

  /** Whether more are under way than {@link HTTP_LIMITS.underWay}. */
  get isFull(): boolean {
    return this.underWay > HTTP_LIMITS.underWay;
  }

  /** Whether requests wait at the door. */
  get isCrowded(): boolean {
    return this.waiting.length > 0;
  }

  arrived(): void {
    this.underWay += 1;
  }

  /** {@link letIn} is to follow, once for all that are answered together. */
  answered(): void {
    this.underWay -= 1;
  }

  /** Lets the request in when it is its turn. */
  enter(response: Response): void {
    this.waiting.push(response);
    this.letIn();
    if (this.waiting.length > 0) {
      this.lateness ??= setTimeout(() => this.letInLate(), HTTP_LIMITS.doorTime);
    }
  }

  /** Lets none in until {@link open}. */
  shut(): void {
    this.isOpen = false;
  }

  open(): void {
    this.isOpen = true;
    this.letIn();
  }

  letIn(): void {
    while (
      this.isOpen &&
      this.waiting.length > 0 &&
      this.underWay - this.waiting.length < HTTP_LIMITS.handled
    ) {
      this.letInNext();
    }
  }

  /** Lets in all that have waited long: what those inside wait for may be nothing that these need. */
  private letInLate(): void {
    const late = performance.now() - HTTP_LIMITS.doorTime;
    while (this.isOpen && this.waiting.length > 0 && this.waiting[0]!.req.receivedAt < late) {
      this.letInNext();
    }
    this.lateness =
      this.waiting.length > 0
        ? setTimeout(() => this.letInLate(), HTTP_LIMITS.doorTime / 4)
        : undefined;
  }

  private letInNext(): void {
    const response = this.waiting.shift()!;
    this.start(response.req, response);
  }
}
