import type { Connection } from './connection.js';
import type { Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';

/** Requests that wait. A turn of the event loop handles some of them, so that it has time for responses and connections. */
export class RequestQueue {
  /** By {@link Connection.keyId}, in the order of their turns. */
  private readonly queues = new Map<Connection['keyId'], Response[]>();
  private inProgress = 0;
  private closed = 0;
  /** Whether a connection was accepted in this turn, which is short then: each of those that wait takes a turn. */
  hasAccepted = false;

  constructor(
    private readonly limits: HttpLimits,
    private readonly handle: (response: Response) => void,
  ) {}

  /** @param keyId of the request's connection: neither a key nor clients without one keep others waiting. */
  add(response: Response, keyId: Connection['keyId']): void {
    if (this.queues.size === 0) {
      setImmediate(this.handleSome);
    }
    const queue = this.queues.get(keyId) ?? [];
    queue.push(response);
    this.queues.set(keyId, queue);
  }

  /** Drops the requests of a hundred closed connections at a time, because it looks at all requests that wait. */
  noteClosed(): void {
    if (++this.closed % 100 === 0) {
      const isOpen = ({ req }: Response) => !req.socket.destroyed;
      this.queues.forEach((queue, keyId) => this.queues.set(keyId, queue.filter(isOpen)));
    }
  }

  private readonly handleSome = (): void => {
    const { handlers, requestsPerTurn } = this.limits;
    let left = this.hasAccepted ? 1 : Math.max(requestsPerTurn, handlers - this.inProgress);
    this.hasAccepted = false;
    for (const [keyId, queue] of this.queues) {
      if (left === 0) {
        break;
      }
      const response = queue.shift();
      this.queues.delete(keyId);
      if (queue.length > 0) {
        this.queues.set(keyId, queue);
      }
      if (response?.req.socket.destroyed === false) {
        left -= 1;
        this.inProgress += 1;
        response.onceEnded.push(() => (this.inProgress -= 1));
        this.handle(response);
      }
    }
    if (this.queues.size > 0) {
      setImmediate(this.handleSome);
    }
  };
}
