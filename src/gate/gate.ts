import type { Request, Response } from '../http/express-classes.js';
import type { Arrivals } from '../http/http-adapter.js';
import type { HttpLimits } from '../http/limits.js';

/**
 * Lets requests in. A turn of the event loop handles some of those that have arrived, so that it has time for responses
 * and connections. Callers take turns: a caller is an API key that is remembered, or else the network of a client.
 */
export class Gate implements Arrivals {
  /** The requests that wait to be handled, by caller, in the order of the callers' turns. */
  private readonly waiting = new Map<string, Response[]>();
  /** Requests with a bearer token that were handled, and whose handlers have not ended the response. */
  private inProgress = 0;
  private hasAccepted = false;
  /** Requests whose clients have left, since the last time that all were dropped. */
  private gone = 0;

  /** @returns the id of the API key of a request, if the key is remembered as a valid one. */
  recognize: (request: Request) => string | undefined = () => undefined;

  constructor(private readonly limits: HttpLimits) {}

  handle: (response: Response) => void = () => {};

  arrive(response: Response, network: string): void {
    if (this.waiting.size === 0) {
      setImmediate(this.handleSome);
    }
    const keyId = this.recognize(response.req);
    const caller = keyId === undefined ? network : `key ${keyId}`;
    const queue = this.waiting.get(caller);
    if (queue === undefined) {
      this.waiting.set(caller, [response]);
    } else {
      queue.push(response);
    }
  }

  accepted(): void {
    this.hasAccepted = true;
  }

  /** Requests hold what their connections hold. So those that left are dropped before their turn, but many at a time. */
  left(requests: number): void {
    this.gone += requests;
    if (this.gone > this.limits.openRequests / 4) {
      this.gone = 0;
      for (const [caller, queue] of this.waiting) {
        this.waiting.set(caller, queue.filter(isHere));
      }
    }
  }

  /** While connections are accepted, which is one in a turn, turns are short. */
  private readonly handleSome = (): void => {
    const { handlers, requestsPerTurn } = this.limits;
    let left = this.hasAccepted
      ? Math.max(2 * this.waiting.size, requestsPerTurn / 2)
      : Math.max(requestsPerTurn, handlers - this.inProgress);
    this.hasAccepted = false;
    for (const [caller, queue] of this.waiting) {
      if (left === 0) {
        break;
      }
      const response = queue.shift();
      this.waiting.delete(caller);
      if (queue.length > 0) {
        this.waiting.set(caller, queue);
      }
      if (response !== undefined && isHere(response)) {
        left -= 1;
        if (response.req.keyHash !== undefined) {
          this.inProgress += 1;
          response.onceEnded.push(() => (this.inProgress -= 1));
        }
        this.handle(response);
      }
    }
    if (this.waiting.size > 0) {
      setImmediate(this.handleSome);
    }
  };
}

const isHere = ({ req }: Response) => !req.socket.destroyed;
