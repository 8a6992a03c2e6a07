import type { Server } from 'node:http';
import { Socket } from 'node:net';
import { isAllRead, latestResponse, responseUnderWay } from './client-error.js';
import { endGently, takesMore } from './ending.js';
import { HTTP_LIMITS } from './limits.js';
import type { Request } from './request.js';
import type { Response } from './response.js';

/** A request that waits for others of its connection. */
interface Held {
  response: Response;
  /** How many may be worked on beside the first. */
  most: number;
  start: () => void;
}

interface Connection {
  /**
   * Of the request under way when the connection was last looked at, or else of the one that came last. It stands for the
   * request, as no two of a connection come at the same time: to keep the request itself until the next look would have
   * V8 take it for old, and collect its whole heap all the more often.
   */
  receivedAt?: number;
  /** Whether no response was under way then. */
  isIdle: boolean;
  /** Since when that is so: `performance.now()`. */
  since: number;
  /**
   * To the requests that are worked on although an earlier one of the connection is not answered yet, in the order in
   * which they were begun.
   */
  pipelined: Set<Response>;
  /** Further ones. */
  held: Held[];
  /** Requests answered. */
  answered: number;
  /** Whether one of these had a valid API key. */
  hasKey: boolean;
  /** Since when it is not read: `performance.now()`. */
  restsSince?: number;
}

/** Milliseconds between two looks at all connections. */
const WATCH_EVERY = 250;

/**
 * The open connections of the HTTP server: watched, and ended when the service stops.
 *
 * What a request and its client may take is bounded by looking at all of them a few times a second, at next to no cost
 * for each request.
 */
export class Connections {
  private readonly open = new Map<Socket, Connection>();
  private readonly watching: NodeJS.Timeout;
  /** Requests that {@link Connection.held} has of all of them. */
  private heldInAll = 0;

  /** @param onOverdue answers a request whose answer took too long. */
  constructor(
    server: Server,
    private readonly onOverdue: (response: Response) => void,
  ) {
    server.maxConnections = HTTP_LIMITS.connections;
    server.on('connection', (socket: Socket) => this.add(socket));
    this.watching = setInterval(() => this.watch(), WATCH_EVERY).unref();
  }

  get count(): number {
    return this.open.size;
  }

  /**
   * Calls `start` for a request that came before its predecessor on the connection was answered (RFC 9112, section
   * 9.3.2): at once where none waits and it {@link mayBegin}, else as soon as it may. Until then the connection is not
   * read, so that a client that takes no answers, or sends faster than it is served, fills its own buffers and not this
   * process's memory. What came with its last bytes is held; of all connections {@link HTTP_LIMITS.held} requests at
   * most: for one more, the connection that has most of them is cut.
   */
  startInTurn(response: Response, most: number, start: () => void): void {
    const { socket } = response.req;
    const connection = this.open.get(socket);
    // Of one that was cut, what is left of the last bytes still comes.
    if (connection === undefined || socket.destroyed) {
      return;
    }
    response.once('close', () => {
      connection.pipelined.delete(response);
      this.beginNext(connection);
      socket.resume();
    });
    if (connection.held.length === 0 && connection.pipelined.size === 0) {
      // Of the first one no notice was taken.
      responseUnderWay(socket)?.once('close', () => this.beginNext(connection));
    }
    connection.held.push({ response, most, start });
    this.heldInAll += 1;
    this.beginNext(connection);
    if (connection.held.length === 0) {
      return;
    }
    socket.pause();
    if (this.heldInAll > HTTP_LIMITS.held) {
      this.cutLongest();
    }
  }

  /**
   * Takes notice of an answer.
   *
   * @returns whether many went out on its connection, none to a request with a valid key, while too many requests wait
   *   there, and nothing behind this one was begun.
   */
  isLastOfFlood(response: Response): boolean {
    const { socket, caller } = response.req;
    const connection = this.open.get(socket);
    if (connection === undefined) {
      return false;
    }
    connection.hasKey ||= caller !== undefined;
    connection.answered += 1;
    return (
      !connection.hasKey &&
      connection.answered >= HTTP_LIMITS.pipelined &&
      connection.held.length > HTTP_LIMITS.heldWithoutKey &&
      [...connection.pipelined].at(-1) === response
    );
  }

  private cutLongest(): void {
    let [longest] = this.open;
    for (const entry of this.open) {
      if (entry[1].held.length > longest![1].held.length) {
        longest = entry;
      }
    }
    const [socket, connection] = longest!;
    this.forgetHeld(connection);
    socket.destroy();
  }

  private forgetHeld(connection: Connection): void {
    this.heldInAll -= connection.held.length;
    connection.held = [];
  }

  private beginNext(connection: Connection): void {
    for (
      let [next] = connection.held;
      next && mayBegin(connection, next);
      [next] = connection.held
    ) {
      connection.held.shift();
      this.heldInAll -= 1;
      if (takesMore(next.response.req.socket)) {
        connection.pipelined.add(next.response);
        next.start();
      }
    }
  }

  /**
   * Does not read a connection for {@link HTTP_LIMITS.refusedRest}: a client that asks again at once when it is refused
   * would have the service do nothing but refuse.
   */
  rest(socket: Socket): void {
    const connection = this.open.get(socket);
    if (connection !== undefined) {
      connection.restsSince = performance.now();
      socket.pause();
    }
  }

  /** Ends every connection that no request is under way on. */
  endIdle(): void {
    for (const socket of this.open.keys()) {
      if (responseUnderWay(socket) === undefined) {
        socket.destroy();
      }
    }
  }

  destroyAll(): void {
    for (const socket of this.open.keys()) {
      socket.destroy();
    }
  }

  stopWatching(): void {
    clearInterval(this.watching);
  }

  private add(socket: Socket): void {
    const connection: Connection = {
      receivedAt: undefined,
      isIdle: true,
      since: performance.now(),
      pipelined: new Set(),
      held: [],
      answered: 0,
      hasKey: false,
      restsSince: undefined,
    };
    this.open.set(socket, connection);
    // Node keeps what was read once; of a client that has left it could not be read any more.
    void socket.remoteAddress;
    socket.once('close', () => {
      this.open.delete(socket);
      this.forgetHeld(connection);
    });
    endGently(socket, () => isAllRead(socket));
    // Node resumes a connection whenever it is done with a request; one that is held back stays paused.
    const isHeldBack = () => connection.held.length > 0 || connection.restsSince !== undefined;
    socket.resume = () => (isHeldBack() ? socket : Socket.prototype.resume.call(socket));
    // That takes effect later, and undoes a pause that came meanwhile: Node's server stops reading on this event.
    socket.on('resume', () => {
      if (isHeldBack() && socket.isPaused()) {
        socket.emit('pause');
      }
    });
  }

  private watch(): void {
    const now = performance.now();
    for (const [socket, connection] of this.open) {
      if (
        connection.restsSince !== undefined &&
        now - connection.restsSince > HTTP_LIMITS.refusedRest
      ) {
        connection.restsSince = undefined;
        socket.resume();
      }
      this.endOverdue(socket, connection, now);
    }
    this.cutGreediest();
  }

  private endOverdue(socket: Socket, connection: Connection, now: number): void {
    const underWay = responseUnderWay(socket);
    const receivedAt = (underWay ?? latestResponse(socket))?.req.receivedAt;
    const isIdle = underWay === undefined;
    const took = now - connection.since;
    if (receivedAt !== connection.receivedAt || isIdle !== connection.isIdle) {
      Object.assign(connection, { receivedAt, isIdle, since: now });
    } else if (underWay === undefined) {
      // Node counts from the last byte that came, and empty lines between requests are bytes.
      if (took > HTTP_LIMITS.keepAliveTimeout + HTTP_LIMITS.headersTimeout) {
        socket.destroy();
      }
    } else if (isArriving(underWay)) {
      // A request that does not arrive is Node's to end: HTTP_LIMITS.requestTimeout.
      connection.since = now;
    } else if (!underWay.headersSent) {
      if (took > HTTP_LIMITS.answerTimeout) {
        this.onOverdue(underWay);
      }
    } else if (took > HTTP_LIMITS.takeTimeout) {
      socket.destroy();
    }
  }

  /** Cuts the connections whose clients have taken the least of their answers, while that is too much in all. */
  private cutGreediest(): void {
    const unsent = [...this.open].map(([socket, { pipelined }]): [Socket, number] => [
      socket,
      [...pipelined].reduce((bytes, response) => bytes + unsentOf(response), socket.writableLength),
    ]);
    let all = unsent.reduce((sum, [, bytes]) => sum + bytes, 0);
    if (all > HTTP_LIMITS.unsentBytes) {
      unsent.sort(([, one], [, other]) => one - other);
    }
    while (all > HTTP_LIMITS.unsentBytes) {
      const [socket, bytes] = unsent.pop()!;
      socket.destroy();
      all -= bytes;
    }
  }
}

/**
 * Whether the work on a request may begin: when those before it are answered, or beside fewer than `most`. Only requests
 * with safe methods are worked on at the same time (RFC 9112, section 9.3.2), so that one that lists finds what the one
 * before it created.
 */
function mayBegin({ pipelined }: Connection, { response, most }: Held): boolean {
  const first = responseUnderWay(response.req.socket);
  return (
    first === response ||
    (pipelined.size < most && isSafe(response.req) && (first === undefined || isSafe(first.req)))
  );
}

/** RFC 9110, section 9.2.1. */
const isSafe = ({ method }: Request) => ['GET', 'HEAD', 'OPTIONS', 'TRACE'].includes(method);

/** What of an answer waits for those before it; once it is its turn, it waits in the socket. */
function unsentOf(response: Response): number {
  return response.socket === null ? response.writableLength : 0;
}

function isArriving({ req: { complete, refuseBody } }: Response): boolean {
  return !complete && refuseBody === undefined;
}
