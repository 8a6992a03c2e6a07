import type { Socket } from 'node:net';
import { type ApiError, overloaded } from '../errors/api-error.js';
import type { Request, Response } from '../http/express-classes.js';
import type { Arrivals } from '../http/http-adapter.js';
import type { HttpLimits } from '../http/limits.js';
import { Turns } from './turns.js';

/** An API key that has requests. */
interface Caller {
  keyId: string;
  /** Its requests that are in handlers, or wait for them. */
  requests: number;
  /** By operation. */
  queues: Map<unknown, Queue>;
}

interface Queue {
  caller: Caller;
  /** The places in handlers that its requests take. */
  places: number;
}

/** Work that waits for its turn. Empty when its client has left: the memory of many such requests must not wait for that. */
interface Arrival {
  socket?: Socket;
  begin?: () => void;
}

interface Waiting {
  deadline: number;
  /** Rejects it at its deadline. */
  overdue: NodeJS.Timeout;
  enter: () => void;
  reject: (error: ApiError) => void;
}

/** A request with a valid key that is in its handler, or waits for it. */
interface Admitted {
  queue: Queue;
  places: number;
  /** Missing when it is in its handler. */
  waits?: Waiting;
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
    return { inHandlers: this.requests - this.waiting.size, waiting: this.waiting.size };
  }

  /** By network. */
  private readonly unread = new Turns<string, Socket>();
  /** By the id of a remembered key, and of others by network. */
  private readonly known = new Turns<string, Arrival>();
  private readonly strangers = new Turns<string, Arrival>();
  /** Whose turn it was, counted through both. */
  private turn = 0;
  private readonly waiting = new Turns<Queue, Admitted>();
  private readonly callers = new Map<string, Caller>();
  /** Of all callers: their requests, the places that those take in handlers, and the queues that have some. */
  private requests = 0;
  private places = 0;
  private busyQueues = 0;
  private isReading = false;
  private isHandling = false;
  private isCrowded = false;
  private hasFlooded = false;
  private hasAccepted = false;
  /** `performance.now()` when the latest turn began, how many requests it began to handle, and how many there is time for. */
  private turnBegan = 0;
  private begun = 0;
  private inTime = Infinity;

  /** Set by ApiKeyVerifier. @returns the id of the API key of a request, if the key is remembered as a valid one. */
  recognize: (request: Request) => string | undefined = () => undefined;

  constructor(private readonly limits: HttpLimits) {}

  /** Set by HttpAdapter. */
  handle: (response: Response) => void = () => {};

  accepted(): void {
    this.hasAccepted = true;
  }

  flooded(): void {
    this.hasFlooded = true;
  }

  mustWait(network: string): boolean {
    return this.unread.has(network);
  }

  read(socket: Socket, network: string): void {
    this.unread.add(network, socket);
    this.readNextLater();
  }

  left(socket: Socket, network: string): void {
    this.unread.delete(network, socket);
  }

  crowded(isCrowded: boolean): void {
    this.isCrowded = isCrowded;
    this.handleLater();
  }

  arrive(response: Response): void {
    this.inTurn(response, this.recognize(response.req), () => this.handle(response));
  }

  inTurn(response: Response, keyId: string | undefined, work: () => void): void {
    const { socket, network } = response.req;
    const arrival: Arrival = { socket, begin: work };
    response.onceClosed.push(() => (arrival.socket = arrival.begin = undefined));
    if (keyId === undefined) {
      this.strangers.add(network, arrival);
    } else {
      this.known.add(keyId, arrival);
    }
    this.handleLater();
  }

  /**
   * Lets a request with a valid key into its handler when there are places, at the latest at its deadline. Each key has a
   * queue for each operation. One queue may have all places while no other request waits. A queue that has less than its
   * share enters at once: it does not wait for handlers of others, which may hang, for example if a table is locked. So
   * with n queues, up to about ln(n) times as many places are taken as {@link HttpLimits.places}.
   *
   * @param rows that the request asks for.
   * @throws ApiError `unavailable` if its key has its share of all requests, and as many as are left; while it waits, if
   *   the deadline is over, or if its key has most when one below its share comes.
   */
  admit(response: Response, keyId: string, operation: unknown, rows: number): true | Promise<true> {
    const caller = this.callers.get(keyId) ?? { keyId, requests: 0, queues: new Map() };
    const queue: Queue = caller.queues.get(operation) ?? { caller, places: 0 };
    this.count(caller);
    caller.queues.set(operation, queue);
    const places = Math.ceil(rows / this.limits.rowsPerPlace);
    const own: Admitted = { queue, places, waits: undefined, hasLeft: false };
    response.onceEnded.push(() => this.leave(own));
    // The database may still work for a client that has left. Its handler may never end its response.
    response.onceClosed.push(() => {
      const left = own.waits === undefined ? response.req.deadline - performance.now() : 0;
      if (left <= 0) {
        this.leave(own);
      } else if (!own.hasLeft) {
        setTimeout(() => this.leave(own), left).unref();
      }
    });
    if (!this.waiting.has(queue) && this.mayEnter(queue)) {
      this.enter(own);
      return true;
    }
    return new Promise((resolve, reject) => {
      const { deadline } = response.req;
      const rejectOverdue = () => this.reject(own, 'overdue');
      const overdue = setTimeout(rejectOverdue, deadline - performance.now()).unref();
      own.waits = { deadline, overdue, enter: () => resolve(true), reject };
      this.waiting.add(queue, own);
      this.letEnter(queue);
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

  /** How many have a turn in a round: each key, and so many networks that thousands keep no key waiting. */
  private get queuesWithTurns(): number {
    const { queueCount } = this.strangers;
    return (
      this.known.queueCount +
      (this.isCrowded ? 0 : Math.min(queueCount, this.limits.requestsPerTurn))
    );
  }

  private handleLater(): void {
    if (!this.isHandling && this.queuesWithTurns > 0) {
      this.isHandling = true;
      setImmediate(this.handleSome);
      // Between the two, guards and handlers go on, but nothing is read.
      setImmediate(this.measure);
    }
  }

  private readonly measure = (): void => {
    if (this.begun > 0) {
      this.inTime = (this.limits.turn * this.begun) / (performance.now() - this.turnBegan);
    }
  };

  /**
   * While connections are accepted, which is one in a turn of the event loop, turns are short: one request of each. So are
   * those after one that took long, because guards and handlers go on after it.
   */
  private readonly handleSome = (): void => {
    this.isHandling = false;
    const { places, requestsPerTurn } = this.limits;
    const most = Math.max(requestsPerTurn, places - this.places);
    let left = this.hasAccepted
      ? this.queuesWithTurns
      : Math.max(requestsPerTurn / 2, Math.min(most, this.inTime));
    // A stranger's takes no place, and may have a large response.
    const ofStranger = this.hasAccepted ? 1 : Math.max(1, left / requestsPerTurn);
    this.hasAccepted = false;
    this.turnBegan = performance.now();
    this.begun = 0;
    const end = this.turnBegan + this.limits.turn;
    while (left > 0 && this.queuesWithTurns > 0 && performance.now() < end) {
      this.turn = (this.turn + 1) % this.queuesWithTurns;
      const isKnown = this.turn < this.known.queueCount;
      const { socket, begin } = (isKnown ? this.known : this.strangers).next()!;
      if (socket?.writable) {
        left -= isKnown ? 1 : ofStranger;
        this.begun += 1;
        begin!();
      }
    }
    this.handleLater();
  };

  /** No number of keys with many requests keeps out one with few. */
  private count(caller: Caller): void {
    const { callers, limits } = this;
    const free = limits.admittedRequests - this.requests;
    const keys = callers.size + (caller.requests === 0 ? 1 : 0);
    if (caller.requests >= limits.admittedRequests / (keys + 1) && caller.requests >= free) {
      throw overloaded('over_share');
    }
    if (free <= 0) {
      this.rejectNewest();
    }
    this.requests += 1;
    caller.requests += 1;
    callers.set(caller.keyId, caller);
  }

  /** Of the key that has most requests. */
  private rejectNewest(): void {
    let newest: Admitted | undefined;
    const isRather = ({ queue, waits }: Admitted) =>
      newest === undefined ||
      queue.caller.requests > newest.queue.caller.requests ||
      (queue.caller === newest.queue.caller && waits!.deadline > newest.waits!.deadline);
    for (const one of this.waiting.newest()) {
      newest = isRather(one) ? one : newest;
    }
    if (newest !== undefined) {
      this.reject(newest, 'over_share');
    }
  }

  private reject(one: Admitted, because: 'overdue' | 'over_share'): void {
    one.waits!.reject(overloaded(because));
    this.leave(one);
  }

  private mayEnter({ places }: Queue): boolean {
    const queues = this.busyQueues + (places === 0 ? 1 : 0);
    return this.places < this.limits.places || places < this.limits.places / queues;
  }

  /** Lets those enter who now may: queues in turn while there are places, and this one up to its share. */
  private letEnter(queue: Queue): void {
    while (this.waiting.size > 0 && this.places < this.limits.places) {
      this.enter(this.waiting.next()!);
    }
    while (this.waiting.has(queue) && this.mayEnter(queue)) {
      this.enter(this.waiting.next(queue)!);
    }
  }

  private enter(own: Admitted): void {
    clearTimeout(own.waits?.overdue);
    own.waits?.enter();
    own.waits = undefined;
    this.busyQueues += own.queue.places === 0 ? 1 : 0;
    own.queue.places += own.places;
    this.places += own.places;
  }

  /** It has ended its response, or its client has left, or it was rejected. */
  private leave(own: Admitted): void {
    if (own.hasLeft) {
      return;
    }
    own.hasLeft = true;
    const { queue, places } = own;
    this.requests -= 1;
    queue.caller.requests -= 1;
    if (queue.caller.requests === 0) {
      this.callers.delete(queue.caller.keyId);
    }
    if (own.waits !== undefined) {
      clearTimeout(own.waits.overdue);
      this.waiting.delete(queue, own);
      return;
    }
    this.places -= places;
    queue.places -= places;
    this.busyQueues -= queue.places === 0 ? 1 : 0;
    this.letEnter(queue);
  }
}
