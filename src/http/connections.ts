import type { Socket } from 'node:net';
import { Connection } from './connection.js';
import type { Response } from './express-classes.js';
import { HeldBytes } from './held-bytes.js';
import type { HttpLimits } from './limits.js';
import type { ListenerErrors } from './listener-errors.js';
import { networkOf } from './network.js';

/** What decides when connections of a network that floods are read. */
export interface Readers {
  /** Calls `resume` of a paused socket when its turn has come. */
  read(socket: Socket, network: string): void;
  /** The connection is closed: it no longer waits for its turn. */
  left(socket: Socket, network: string): void;
  /** Whether other connections of the network wait for their turn. */
  mustWait(network: string): boolean;
  /** A client sent far too many requests at once. */
  flooded(): void;
  /** Whether requests without a remembered key wait, until it is known how many bytes clients have not read. */
  crowded(isCrowded: boolean): void;
}

/**
 * The open connections. If there are too many, or they have too many requests without a complete response, the one that has
 * been idle for the longest time is closed. No handler works for it, or its body does not arrive.
 *
 * A packet of 64 KiB may have 1,600 requests, which Node parses in 3 ms and keeps until the connection ends. So after a
 * flood, the connections of its network are read in turns, and new ones after them.
 */
export class Connections {
  /** In the order in which they were last used, by the second: to move one each time takes 1 % of a list's time. */
  private readonly open = new Set<Connection>();
  private readonly bySocket = new WeakMap<Socket, Connection>();
  /** Requests without a complete response. */
  private pending = 0;
  /** Requests that are not handled, of open connections. */
  private excess = 0;
  /** `performance.now()` when a search found no idle connection. */
  private noneIdleAt = -Infinity;
  private watching?: NodeJS.Timeout;
  readonly held: HeldBytes;
  isClosing = false;

  /** @param isProxy whether an address is a trusted proxy's, whose connections are never kept waiting. */
  constructor(
    private readonly limits: HttpLimits,
    private readonly errors: ListenerErrors,
    private readonly readers: Readers,
    private readonly isProxy: (address: string) => boolean,
  ) {
    this.held = new HeldBytes(limits, () => this.open, readers);
  }

  accept(socket: Socket): void {
    this.watching ??= setInterval(() => this.held.watch(), 1_000).unref();
    if (this.open.size >= this.limits.connections && !this.makeRoom(0)) {
      socket.destroy();
      return;
    }
    // Node caches the address. It cannot be read any more when the client has disconnected.
    const { remoteAddress = '' } = socket;
    const network = this.isProxy(remoteAddress) ? '' : networkOf(remoteAddress);
    const connection = new Connection(socket, network, this.limits);
    connection.closeWhenRead(() => this.held.checkSoon());
    this.bySocket.set(socket, connection);
    this.open.add(connection);
    socket.once('close', () =>
      this.errors.run('close', socket, () => emitClose(this.forget(connection))),
    );
    if (this.readers.mustWait(network)) {
      // Node begins to read in the next tick, whether the socket is paused now or not.
      process.nextTick(() =>
        this.errors.run('connection', socket, () => this.readInTurn(connection)),
      );
    }
  }

  /** @returns none if the connection is closed. */
  get(socket: Socket): Connection | undefined {
    const connection = this.bySocket.get(socket);
    return connection?.state === 'closed' ? undefined : connection;
  }

  /** A request has come on an open connection. @returns whether it is to be handled. */
  noteRequest(response: Response, connection: Connection): boolean {
    const { socket } = connection;
    this.noteUse(connection, response.req.receivedAt);
    connection.noteRequest(response);
    if (this.isClosing) {
      connection.stop();
    }
    this.pending += 1;
    this.held.note(response.req.headBytes);
    response.on('close', () =>
      this.errors.run('response close', socket, () => this.remove(response, connection)),
    );
    const isOver = this.pending > this.limits.pendingRequests && !this.makeRoom(1);
    if (isOver && connection.responses.length > 1) {
      this.close(connection);
    }
    return socket.writable;
  }

  /** A request has come after the last one of its connection, or after that was closed. */
  noteExcess(socket: Socket): void {
    const connection = this.bySocket.get(socket);
    if (connection === undefined) {
      return;
    }
    connection.noteExcess();
    if (connection.state !== 'closed') {
      this.excess += 1;
      if (this.excess > this.limits.excess) {
        this.close(connection);
      }
    }
    if (connection.excess === this.limits.excessPerConnection) {
      this.readers.flooded();
      // Also before the next packet of this turn is read: a thousand connections may send one at once.
      for (const other of this.open) {
        if (other.network === connection.network && !other.socket.isPaused()) {
          this.readInTurn(other);
        }
      }
    }
  }

  /**
   * The socket belongs to another protocol from now on. If nothing is handled any more, the connection ends, with the
   * responses before: no part of Node sends them then.
   */
  upgrade(socket: Socket): void {
    const connection = this.get(socket);
    if (connection?.state !== 'open') {
      // Node has removed its own listener. An error without one would end the process.
      socket.on('error', () => {});
      connection?.close();
      return;
    }
    connection.state = 'upgraded';
    connection.closesAtOnce = true;
    // The time of HTTP requests without data would close it while it is idle.
    socket.setTimeout(0);
  }

  /** Ends idle connections after 50 ms, because a request may be on its way, and others with their response or in time. */
  async stop(closed: Promise<unknown> | undefined): Promise<void> {
    this.isClosing = true;
    this.open.forEach((connection) => {
      connection.stop();
      // The system goes on with what clients read slowly.
      connection.closesAtOnce = true;
    });
    const destroy = (most: number) =>
      this.open.forEach(
        ({ responses, state, socket }) =>
          responses.length <= most && (state !== 'upgraded' || most > 0) && socket.destroy(),
      );
    setTimeout(destroy, 50, 0).unref();
    setTimeout(destroy, this.limits.stopTimeout, Infinity).unref();
    await closed;
  }

  /** The server is closed. */
  stopWatching(): void {
    clearInterval(this.watching);
  }

  private readInTurn({ socket, network, state }: Connection): void {
    if (network !== '' && state === 'open') {
      socket.pause();
      this.readers.read(socket, network);
    }
  }

  private remove(response: Response, connection: Connection): void {
    const { socket, responses } = connection;
    if (!responses.includes(response)) {
      return;
    }
    connection.remove(response);
    this.pending -= 1;
    response.noteClosed();
    this.noteUse(connection, performance.now());
    // Its header may have said that the connection stays open.
    if (this.isClosing && responses.length === 0) {
      socket.destroySoon();
    }
  }

  /** @param now `performance.now()`, or when the request came. */
  private noteUse(connection: Connection, now: number): void {
    if (now > connection.movedAt + 1000 && this.open.delete(connection)) {
      this.open.add(connection);
      connection.movedAt = now;
    }
  }

  /** Closes the idlest connection that has at least so many requests. @returns whether there was one. */
  private makeRoom(requests: 0 | 1): boolean {
    const connection = this.idlest(requests, performance.now());
    if (connection !== undefined) {
      this.close(connection);
    }
    return connection !== undefined;
  }

  private idlest(requests: 0 | 1, now: number): Connection | undefined {
    if (requests === 1 && now < this.noneIdleAt + this.limits.searchPause) {
      return undefined;
    }
    for (const connection of this.open) {
      const { responses, state } = connection;
      // While a request is taken, it is not complete in any case.
      const isIdle = (one: Response) =>
        one.writableEnded || one.writableNeedDrain || (requests === 0 && !one.req.complete);
      if (responses.length >= requests && responses.every(isIdle) && state !== 'upgraded') {
        return connection;
      }
    }
    this.noneIdleAt = now;
    return undefined;
  }

  /** At once: until its socket's `close`, further ones would be closed for its requests. */
  private close(connection: Connection): void {
    connection.close();
    const responses = this.forget(connection);
    connection.socket.once('close', () => emitClose(responses));
  }

  /** @returns the responses that are not complete. */
  private forget(connection: Connection): Response[] {
    const { excess, socket, network } = connection;
    this.readers.left(socket, network);
    this.excess -= this.open.delete(connection) ? excess : 0;
    connection.state = 'closed';
    const responses = [...connection.responses];
    responses.forEach((response) => this.remove(response, connection));
    return responses;
  }
}

/** Node emits no `close` for a response that waits for others of its connection. Its other listeners need it. */
const emitClose = (responses: Response[]) =>
  setImmediate(() => responses.forEach((one) => one.closed || one.emit('close')));
