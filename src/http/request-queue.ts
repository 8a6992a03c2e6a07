import type { Socket } from 'node:net';
import type { Connection } from './connection.js';
import type { Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';

/** Requests that wait. A turn of the event loop handles some of them, so that it has time for responses and connections. */
export class RequestQueue {
  /** By {@link Connection.keyId}, in the order of their turns. */
  private readonly queues = new Map<Connection['keyId'], Response[]>();
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
    if (this.queues.size === 0) {
      setImmediate(this.handleSome);
    }
    const queue = this.queues.get(keyId) ?? [];
    queue.push(response);
    this.queues.set(keyId, queue);
  }

  /** Drops the requests of a connection that is closed, which would take memory until their turn. */
  forget(socket: Socket): void {
    const isOther = ({ req }: Response) => req.socket !== socket;
    this.queues.forEach((queue, keyId) => this.queues.set(keyId, queue.filter(isOther)));
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
      if (response !== undefined) {
        left -= 1;
        this.inProgress += 1;
        response.onceEnded.push(this.noteEnded);
        this.handle(response);
      }
    }
    if (this.queues.size > 0) {
      setImmediate(this.handleSome);
    }
  };

  private readonly noteEnded = () => (this.inProgress -= 1);
}
