import type { Socket } from 'node:net';
import type { Request, Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';

/** What a chunk of a body that nobody reads counts at least, in bytes: the work for it does not depend on its size. */
const CHUNK = 256;

/** A client's connection: its requests without a complete response, and how it ends. */
export class Connection {
  /** The responses that are not complete, in the order of their requests. */
  readonly open = new Set<Response>();
  private latest?: Response;
  /** Whether it ends after the responses in {@link open}. Further requests are not handled. */
  private isEnding = false;

  constructor(
    readonly socket: Socket,
    private readonly limits: HttpLimits,
  ) {
    // Node caches the address. It cannot be read any more when the client has disconnected.
    void socket.remoteAddress;
    // Node emits no `close` for a response that waits for others of its connection. The log and the guards need it.
    socket.once('close', () =>
      setImmediate(() => this.open.forEach((waiting) => waiting.emit('close'))),
    );
  }

  /** Whether it has sent no request. */
  get isSilent(): boolean {
    return this.latest === undefined;
  }

  /** Whether a handler works for it. Otherwise, only its client can go on. */
  get isInUse(): boolean {
    return [...this.open].some((response) => !response.writableEnded);
  }

  /** Its latest request, if that has not arrived completely. */
  get arriving(): Request | undefined {
    return this.latest?.req.complete === false ? this.latest.req : undefined;
  }

  /** @returns whether the request is to be handled: unless the connection ends, or has too many without a response. */
  add(response: Response): boolean {
    if (this.isEnding || this.open.size >= this.limits.requestsPerConnection) {
      if (!this.isEnding) {
        this.stopReading();
      }
      this.endAfterLatest();
      return false;
    }
    this.latest = response;
    this.open.add(response);
    response.once('ended', () => this.boundRest(response.req));
    return true;
  }

  remove(response: Response): void {
    this.open.delete(response);
    // A handler whose client has left may not end its response.
    response.emit('ended');
  }

  /**
   * Handles no further requests, and ends the connection after the responses to those so far.
   * @param respond sends one more response, with which the connection ends.
   */
  endAfterLatest(respond?: () => void): void {
    if (this.isEnding) {
      return;
    }
    this.isEnding = true;
    if (respond === undefined) {
      this.announceEnd();
    }
    const act = respond ?? (() => this.end());
    if (this.latest !== undefined && this.open.has(this.latest)) {
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

  /** What was read together is parsed all the same, but nothing more is read. */
  private stopReading(): void {
    const { socket } = this;
    // Node resumes a socket when it has sent what waited.
    socket.pause().once('resume', () => this.stopReading());
  }

  /** After the response, a client may send the rest of the body, so that it gets the response, but not without limit. */
  private boundRest(request: Request): void {
    if (request.complete) {
      return;
    }
    let left = this.limits.discardedBytes;
    request.on('data', ({ length }: Buffer) => {
      left -= Math.max(length, CHUNK);
      if (left < 0) {
        this.socket.destroySoon();
      }
      // One chunk each millisecond. Otherwise, Node reads 2 MiB at once if they have arrived.
      request.pause();
      setTimeout(() => request.resume(), 1);
    });
  }
}

/**
 * The open connections. If there are too many, or they have too many requests without a complete response, the one that
 * has been idle for the longest time is closed: first of those without a request, then of those that no handler works for.
 */
export class Connections {
  /** In the order in which they were last used. */
  private readonly bySocket = new Map<Socket, Connection>();
  private readonly silent = new Set<Connection>();
  private requests = 0;

  constructor(private readonly limits: HttpLimits) {}

  [Symbol.iterator](): Iterator<Connection> {
    return this.bySocket.values();
  }

  of(socket: Socket): Connection | undefined {
    return this.bySocket.get(socket);
  }

  accept(socket: Socket): void {
    if (this.bySocket.size >= this.limits.connections && !this.makeRoom()) {
      socket.destroy();
      return;
    }
    const connection = new Connection(socket, this.limits);
    this.bySocket.set(socket, connection);
    this.silent.add(connection);
    socket.once('close', () => this.forget(connection));
  }

  /** @returns whether the request is to be handled. */
  add(request: Request, response: Response): boolean {
    const { socket } = request;
    const connection = this.bySocket.get(socket);
    if (connection?.add(response) !== true) {
      return false;
    }
    this.silent.delete(connection);
    this.requests += 1;
    response.once('close', () => {
      this.requests -= 1;
      connection.remove(response);
      if (this.bySocket.delete(socket)) {
        this.bySocket.set(socket, connection);
      }
    });
    if (this.requests > this.limits.openRequests) {
      this.makeRoom(({ open }) => open.size > 0);
    }
    return true;
  }

  private makeRoom(counts = (_connection: Connection) => true): boolean {
    for (const candidates of [this.silent, this.bySocket.values()]) {
      for (const connection of candidates) {
        if (!connection.isInUse && counts(connection)) {
          this.forget(connection);
          connection.socket.destroy();
          return true;
        }
      }
    }
    return false;
  }

  private forget(connection: Connection): void {
    this.bySocket.delete(connection.socket);
    this.silent.delete(connection);
  }
}
