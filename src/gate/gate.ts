import type { Socket } from 'node:net';
import { ApiError } from '../errors/api-error.js';
import type { Request, Response } from '../http/express-classes.js';
import type { Arrivals } from '../http/http-adapter.js';
import type { HttpLimits } from '../http/limits.js';
import { Turns } from './turns.js';

/** A request with a valid key that is in its handler, or waits for it. */
interface Admitted {
  /** Its key's id and its operation. */
  queue: string;
  keyId: string;
  /** How many of the places in handlers it takes. */
  places: number;
  /** Missing when it is in its handler. */
  waits: undefined | { deadline: number; enter: () => void; reject: (error: ApiError) => void };
  hasLeft: boolean;
}

/**
 * The one place that knows who shares the service, and makes them take turns: API keys that were verified, and for requests
 * without one the networks of clients. It lets connections be read ({@link read}), requests be handled ({@link arrive}),
 * and those with a key into their handlers ({@link admit}).
 */
export class Gate implements Arrivals {
  /** The requests with a key that are in handlers, and that wait for them. */
  get load() {
    return { inHandlers: this.admitted - this.waiting.size, waiting: this.waiting.size };
  }

  private readonly unread = new Turns<Socket>();
  private readonly arrived = new Turns<Response>();
  private readonly waiting = new Turns<Admitted>();
  /** Places that are taken, in all and by queue, and requests that are admitted, in all and by key. */
  private places = 0;
  private readonly placesOf = new Map<string, number>();
  private admitted = 0;
  private readonly admittedOf = new Map<string, number>();
  private isReading = false;
  private hasFlooded = false;
  private hasAccepted = false;
  private overdue?: NodeJS.Timeout;

  /** @returns the id of the API key of a request, if the key is remembered as a valid one. */
  recognize: (request: Request) => string | undefined = () => undefined;

  constructor(private readonly limits: HttpLimits) {}

  handle: (response: Response) => void = () => {};

  accepted(): void {
    this.hasAccepted = true;
  }

  flooded(): void {
    this.hasFlooded = true;
  }

  read(socket: Socket, network: string): void {
    this.unread.add(network, socket);
    this.readNextLater();
  }

  arrive(response: Response, network: string): void {
    if (this.arrived.size === 0) {
      setImmediate(this.handleSome);
    }
    const keyId = this.recognize(response.req);
    this.arrived.add(keyId === undefined ? network : `key ${keyId}`, response);
  }

  /**
   * Lets a request with a valid key into its handler when there are places, at the latest at its deadline. Each key has a
   * queue for each operation. One queue may have all places while no other request waits. A queue that has less than its
   * share enters at once: it does not wait for handlers of others, which may hang, for example if a table is locked. So
   * with n queues, up to about ln(n) times as many places are taken as {@link HttpLimits.places}.
   *
   * @param rows that the request asks for.
   * @throws ApiError `unavailable` if its key has its share of all requests and what is left, or if the deadline is over.
   */
  admit(response: Response, keyId: string, operation: string, rows: number): true | Promise<true> {
    const queue = `${keyId} ${operation}`;
    const places = Math.ceil(rows / this.limits.rowsPerPlace);
    const own: Admitted = { queue, keyId, places, waits: undefined, hasLeft: false };
    this.count(keyId);
    response.onceEnded.push(() => this.leave(own));
    const share = this.limits.places / (this.placesOf.size + (this.placesOf.has(queue) ? 0 : 1));
    if (this.places < this.limits.places || (this.placesOf.get(queue) ?? 0) < share) {
      this.enter(own);
      return true;
    }
    this.overdue ??= setInterval(() => this.rejectOverdue(), 100).unref();
    return new Promise((resolve, reject) => {
      const enter = () => resolve(true);
      own.waits = { deadline: response.req.deadline, enter, reject };
      this.waiting.add(queue, own);
    });
  }

  /** One connection in a turn of the event loop, or, after a flood, after a pause. */
  private readNextLater(): void {
    if (this.isReading || this.unread.size === 0) {
      return;
    }
    this.isReading = true;
    const readNext = () => {
      this.isReading = false;
      this.unread.next()?.resume();
      // When it has been read.
      setImmediate(() => this.readNextLater());
    };
    if (this.hasFlooded) {
      this.hasFlooded = false;
      setTimeout(readNext, this.limits.floodPause).unref();
    } else {
      setImmediate(readNext);
    }
  }

  /** While connections are accepted, which is one in a turn of the event loop, turns are short. */
  private readonly handleSome = (): void => {
    const { places, requestsPerTurn } = this.limits;
    let left = this.hasAccepted
      ? Math.max(2 * this.arrived.queueCount, requestsPerTurn / 2)
      : Math.max(requestsPerTurn, places - this.places);
    this.hasAccepted = false;
    while (left > 0 && this.arrived.size > 0) {
      const response = this.arrived.next()!;
      if (!response.req.socket.destroyed) {
        left -= 1;
        this.handle(response);
      }
    }
    if (this.arrived.size > 0) {
      setImmediate(this.handleSome);
    }
  };

  /** No number of keys with many requests keeps out one with few. */
  private count(keyId: string): void {
    const { admittedOf, limits, admitted } = this;
    const own = admittedOf.get(keyId) ?? 0;
    const free = limits.admittedRequests - admitted;
    if (own >= limits.admittedRequests / (admittedOf.size + 1) && own >= free) {
      throw overloaded();
    }
    if (free <= 0) {
      this.rejectNewest();
    }
    this.admitted += 1;
    admittedOf.set(keyId, own + 1);
  }

  /** Of the key that has most requests. */
  private rejectNewest(): void {
    let [most, newest]: [number, Admitted | undefined] = [0, undefined];
    for (const queue of this.waiting.values()) {
      const last = queue.at(-1)!;
      const count = this.admittedOf.get(last.keyId)!;
      const isNewer = count === most && last.waits!.deadline > newest!.waits!.deadline;
      if (count > most || isNewer) {
        [most, newest] = [count, last];
      }
    }
    if (newest !== undefined) {
      this.reject(newest);
    }
  }

  private rejectOverdue(): void {
    const now = performance.now();
    if (this.waiting.size === 0) {
      clearInterval(this.overdue);
      this.overdue = undefined;
    }
    for (const queue of this.waiting.values()) {
      for (const one of queue.filter(({ waits }) => waits!.deadline <= now)) {
        this.reject(one);
      }
    }
  }

  private reject(one: Admitted): void {
    one.waits!.reject(overloaded());
    this.leave(one);
  }

  private enter(own: Admitted): void {
    own.waits = undefined;
    this.places += own.places;
    this.placesOf.set(own.queue, (this.placesOf.get(own.queue) ?? 0) + own.places);
  }

  /** It has ended its response, or its client has left, or it was rejected. */
  private leave(own: Admitted): void {
    if (own.hasLeft) {
      return;
    }
    own.hasLeft = true;
    this.admitted -= 1;
    reduce(this.admittedOf, own.keyId, 1);
    if (own.waits !== undefined) {
      this.waiting.delete(own.queue, own);
      return;
    }
    this.places -= own.places;
    reduce(this.placesOf, own.queue, own.places);
    while (this.waiting.size > 0 && this.places < this.limits.places) {
      const next = this.waiting.next()!;
      next.waits!.enter();
      this.enter(next);
    }
  }
}

/** Forgets the name when its count is 0. */
function reduce(counts: Map<string, number>, name: string, by: number): void {
  const left = counts.get(name)! - by;
  if (left === 0) {
    counts.delete(name);
  } else {
    counts.set(name, left);
  }
}

const overloaded = () => new ApiError('unavailable', 'The service is overloaded; try again.');
