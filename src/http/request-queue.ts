import type { Connection } from './connection.js';
import type { Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';

/** Requests that wait. A turn of the event loop handles some of them, so that it has time for responses and connections. */
export class RequestQueue {
  /** By {@link Connection.keyId}, in the order of their turns. */
  private readonly queues = new Map<Connection['keyId'], Response[]>();
  private waiting = 0;
  /** Requests whose responses have not ended. */
  private inProgress = 0;
  /** Whether a connection was accepted in this turn, which is short then: each of those that wait takes a turn. */
  hasAccepted = false;

  constructor(
    private readonly limits: HttpLimits,
    private readonly handle: (response: Response) => void,
  ) {}

  /** @param keyId of the request's connection: neither a key nor clients without one keep others waiting. */
  add(response: Response, keyId: Connection['keyId']): void {
    if (this.waiting === 0) {
      setImmediate(this.handleSome);
    }
    this.waiting += 1;
    const queue = this.queues.get(keyId) ?? [];
    queue.push(response);
    this.queues.set(keyId, queue);
  }

  private readonly handleSome = (): void => {
    const { handlers, requestsPerTurn, openRequests } = this.limits;
    // New connections bring requests: with too many, which take memory, a turn is not short.
    const isShort = this.hasAccepted && this.waiting < openRequests;
    let left = isShort ? 1 : Math.max(requestsPerTurn, handlers - this.inProgress);
    this.hasAccepted = false;
    // A queue that is set again comes again.
    for (const [keyId, queue] of this.queues) {
      if (left-- === 0) {
        break;
      }
      const response = queue.shift()!;
      this.waiting -= 1;
      this.queues.delete(keyId);
      if (queue.length > 0) {
        this.queues.set(keyId, queue);
      }
      if (!response.req.socket.destroyed) {
        this.inProgress += 1;
        response.onceEnded.push(this.noteEnded);
        this.handle(response);
      }
    }
    if (this.waiting > 0) {
      setImmediate(this.handleSome);
    }
  };

  private readonly noteEnded = () => (this.inProgress -= 1);
}
