import type { Socket } from 'node:net';
import type { Request, Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';

/** A client's connection: its requests without a complete response, and how it ends. */
export class Connection {
  /** The responses that are not complete, in the order of their requests. */
  readonly open: Response[] = [];
  /** `performance.now()` when it moved to the end of the order in which connections were last used. */
  movedAt = 0;
  /** Of the API key of its latest complete request; `undefined` if that had no valid one; `null` for its first request. */
  keyId: string | null | undefined = null;
  /** To its latest request, until both are complete. Kept longer, it would survive collections of garbage. */
  latest?: Response = undefined;
  /** Whether it ends after the responses in {@link open}. Further requests are not handled. */
  private isEnding = false;
  /** Requests that are not handled. */
  excess = 0;

  constructor(
    readonly socket: Socket,
    private readonly limits: HttpLimits,
  ) {
    // Node caches the address. It cannot be read any more when the client has disconnected.
    void socket.remoteAddress;
    // Node emits no `close` for a response that waits for others of its connection. The log and the guards need it.
    socket.once('close', () =>
      setImmediate(() => [...this.open].forEach((waiting) => waiting.emit('close'))),
    );
  }

  /** Its latest request, if that has not arrived completely. */
  get arriving(): Request | undefined {
    return this.latest?.req.complete === false ? this.latest.req : undefined;
  }

  /** @returns whether the request is to be handled: unless the connection ends, or has too many without a response. */
  add(response: Response): boolean {
    if (this.isEnding || this.open.length >= this.limits.requestsPerConnection) {
      this.excess += 1;
      if (this.excess === 1) {
        this.stopReading();
        // When what was read together has been parsed. If many end at once, their clients open other connections.
        process.nextTick(() => {
          if (this.excess < this.limits.excessPerConnection) {
            this.endAfterLatest();
          }
          this.isEnding = true;
        });
      }
      return false;
    }
    if (this.open.length > 0) {
      this.keyId = this.keyId ?? undefined;
    }
    this.latest = response;
    this.open.push(response);
    response.onceEnded.push(() => response.req.complete || this.boundRest(response.req));
    return true;
  }

  /** Handles no further requests, and ends after the responses to those so far, or with the one that `respond` sends. */
  endAfterLatest(respond?: () => void): void {
    if (this.isEnding) {
      return;
    }
    this.isEnding = true;
    if (respond === undefined) {
      this.announceEnd();
    }
    const act = respond ?? (() => this.end());
    if (this.latest !== undefined && this.open.includes(this.latest)) {
      this.latest.once('close', () => (this.socket.destroyed ? undefined : act()));
    } else {
      act();
    }
  }

  /** The latest response says that the connection ends with it, if it still can. Node then ends the connection. */
  announceEnd(): void {
    if (this.latest?.headersSent === false) {
      this.latest.setHeader('Connection', 'close');
    }
  }

  /** Discards what the client still sends: a reset might take the response from it (RFC 9112, section 9.6). */
  end(): void {
    this.socket.end();
    this.socket.removeAllListeners('resume').resume();
    setTimeout(() => this.socket.destroy(), this.limits.lingerTimeout).unref();
  }

  /** What was read together is parsed all the same. Node resumes a socket when it has sent what waited. */
  private stopReading(): void {
    this.socket.pause().once('resume', () => this.stopReading());
  }

  /** After the response, a client may send the rest of the body, so that it gets the response, but not without limit. */
  private boundRest(request: Request): void {
    let left = this.limits.discardedBytes;
    const discard = () => {
      left -= request.read(request.readableLength)?.length ?? 0;
      if (left < 0 || request.chunks > this.limits.discardedBytes / 256) {
        request.off('readable', discard);
        this.stopReading();
        const delay = left < 0 ? 0 : this.limits.requestTimeout;
        setTimeout(() => this.socket.destroySoon(), delay).unref();
      }
    };
    request.on('readable', discard);
    // Node would remove the listener and read on without limit if nothing had been read when the response is sent.
    request.read(0);
  }
}

/**
 * The open connections. If there are too many, or they have too many requests without a complete response, the one that
 * has been idle for the longest time is closed: first of those without a request, then of those that no handler works for.
 */
export class Connections {
  /** In the order in which they were last used, by the second: to move one for each response takes 1 % of a list's time. */
  readonly bySocket = new Map<Socket, Connection>();
  private readonly withoutRequest = new Set<Connection>();
  private requests = 0;
  /** Requests that are not handled, of open connections. */
  private excess = 0;
  /** Of connections that are read in later turns, because others sent many such requests. */
  private readonly unread: Socket[] = [];
  private readAtOnce = 2;
  private isStopping = false;

  constructor(private readonly limits: HttpLimits) {}

  accept(socket: Socket): void {
    if (this.bySocket.size >= this.limits.connections && !this.makeRoom(0)) {
      socket.destroy();
      return;
    }
    const connection = new Connection(socket, this.limits);
    this.bySocket.set(socket, connection);
    this.withoutRequest.add(connection);
    socket
      .once('close', () => this.forget(connection))
      .once('close', () => (this.excess -= connection.excess));
  }

  add({ socket }: Request, response: Response): Connection | undefined {
    const connection = this.bySocket.get(socket);
    if (connection?.add(response) !== true) {
      return connection && this.noteExcess(connection);
    }
    this.withoutRequest.delete(connection);
    this.requests += 1;
    response.on('close', () => this.remove(response, connection));
    const isOver = this.requests > this.limits.openRequests && !this.makeRoom(1);
    if (isOver && connection.open.length > 1) {
      this.discard(connection);
      return undefined;
    }
    return connection;
  }

  /** Ends idle connections after 50 ms, because a request may be on its way, and others with their response or in time. */
  async stop(closed: Promise<unknown> | undefined): Promise<void> {
    this.isStopping = true;
    this.bySocket.forEach((connection) => connection.announceEnd());
    const destroy = (most: number) =>
      this.bySocket.forEach(({ open }, socket) => open.length <= most && socket.destroy());
    setTimeout(destroy, 50, 0).unref();
    setTimeout(destroy, this.limits.stopTimeout, Infinity).unref();
    await closed;
  }

  /** A request that is not handled takes 2 µs and 2 KB all the same, and 64 KiB may have 1,600 of them. */
  private noteExcess({ socket, excess }: Connection): undefined {
    this.excess += 1;
    if (excess === this.limits.excessPerConnection && this.excess > this.limits.excess) {
      socket.destroy();
    }
    if (this.excess % 1000 === 0) {
      this.readAtOnce = 2;
      const reading = [...this.bySocket.values()]
        .filter((one) => one.excess === 0 && !one.socket.isPaused())
        .map(({ socket }) => socket.pause());
      if (this.unread.push(...reading) === reading.length) {
        setImmediate(this.readSome);
      }
    }
  }

  private readonly readSome = (): void => {
    const count = this.readAtOnce;
    [...this.unread.splice(-count), ...this.unread.splice(0, count)].forEach((one) => one.resume());
    this.readAtOnce *= 2;
    if (this.unread.length > 0) {
      setImmediate(this.readSome);
    }
  };

  private remove(response: Response, connection: Connection): void {
    const { socket, open } = connection;
    if (!open.includes(response)) {
      return;
    }
    open.splice(open.indexOf(response), 1);
    this.requests -= 1;
    response.noteClosed();
    const { receivedAt, user, complete } = response.req;
    connection.keyId = user?.keyId;
    if (connection.latest === response && complete) {
      connection.latest = undefined;
    }
    if (receivedAt > connection.movedAt + 1000 && this.bySocket.delete(socket)) {
      this.bySocket.set(socket, connection);
      connection.movedAt = receivedAt;
    }
    // Its header may have said that the connection stays open.
    if (this.isStopping && open.length === 0) {
      socket.destroySoon();
    }
  }

  /** Closes the idlest connection that has at least so many requests. @returns whether there was one. */
  private makeRoom(requests: number): boolean {
    for (const candidates of [this.withoutRequest, this.bySocket.values()]) {
      for (const connection of candidates) {
        const { open } = connection;
        if (open.length >= requests && open.every(({ writableEnded }) => writableEnded)) {
          this.discard(connection);
          return true;
        }
      }
    }
    return false;
  }

  private discard(connection: Connection): void {
    this.forget(connection);
    connection.socket.destroy();
  }

  private forget(connection: Connection): void {
    this.bySocket.delete(connection.socket);
    this.withoutRequest.delete(connection);
  }
}
