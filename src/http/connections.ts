import type { Socket } from 'node:net';
import { Connection } from './connection.js';
import type { Request, Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';
import type { ListenerErrors } from './listener-errors.js';
import { networkOf } from './network.js';
import { SendQueues } from './send-queues.js';

/** A network whose clients sent too many requests at once. */
interface Flood {
  /** Its connections that are not read until their turn. */
  readonly unread: Connection[];
  /** `performance.now()` until which new connections wait for a turn. */
  until: number;
}

/**
 * The open connections. If there are too many, or they have too many requests without a complete response, the one that
 * has been idle for the longest time is closed: first of those without a request, then of those that no handler works for.
 *
 * A packet of 64 KiB may have 1,600 requests, which Node parses in 3 ms and keeps until the connection ends. So after a
 * flood, the connections of its network are read in turns: one in a turn of the event loop, or, after another flood,
 * after a pause. Networks take turns.
 */
export class Connections {
  /** In the order in which they were last used, by the second: to move one for each response takes 1 % of a list's time. */
  private readonly bySocket = new Map<Socket, Connection>();
  private readonly withoutRequest = new Set<Connection>();
  /** Requests without a complete response, each as often as {@link weightOf} says. */
  private requests = 0;
  /** Requests that are not handled, of open connections. */
  private excess = 0;
  /** By network, in the order of their turns. */
  private readonly floods = new Map<string, Flood>();
  private readonly sendQueues: SendQueues;
  private isReading = false;
  /** Whether there was a flood since the last connection was chosen. */
  private hasFlooded = false;
  private watching?: NodeJS.Timeout;
  isStopping = false;

  /**
   * @param isProxy whether an address is a trusted proxy's, whose connections are never kept waiting.
   * @param left is told how many requests a connection had when it was closed.
   */
  constructor(
    private readonly limits: HttpLimits,
    private readonly errors: ListenerErrors,
    private readonly isProxy: (address: string) => boolean,
    private readonly left: (requests: number) => void,
  ) {
    this.sendQueues = new SendQueues(limits);
  }

  accept(socket: Socket): void {
    this.watching ??= setInterval(() => this.watch(), 1_000).unref();
    if (this.bySocket.size >= this.limits.connections && !this.makeRoom(0)) {
      socket.destroy();
      return;
    }
    // Node caches the address. It cannot be read any more when the client has disconnected.
    const { remoteAddress = '' } = socket;
    const network = this.isProxy(remoteAddress) ? '' : networkOf(remoteAddress);
    const connection = new Connection(socket, network, this.limits, this.errors);
    this.bySocket.set(socket, connection);
    this.withoutRequest.add(connection);
    socket.once('close', () => this.errors.run('close', socket, () => this.forget(connection)));
    const flood = this.floods.get(network);
    if (flood !== undefined) {
      // Node begins to read in the next tick, whether the socket is paused now or not.
      process.nextTick(() =>
        this.errors.run('connection', socket, () => this.readLater(connection, flood)),
      );
    }
  }

  get(socket: Socket): Connection | undefined {
    return this.bySocket.get(socket);
  }

  /** @returns the connection of a request that is to be handled; otherwise `undefined`. */
  add({ socket }: Request, response: Response): Connection | undefined {
    const connection = this.bySocket.get(socket);
    if (connection?.take(response) !== true) {
      return connection && this.noteExcess(connection);
    }
    if (this.isStopping) {
      connection.stop();
    }
    this.withoutRequest.delete(connection);
    if (connection.open.length === 1) {
      this.sendQueues.noteRead(connection);
    }
    this.requests += this.weightOf(response.req.headBytes);
    response.on('close', () =>
      this.errors.run('response close', socket, () => this.remove(response, connection)),
    );
    const isOver = this.requests > this.limits.openRequests && !this.makeRoom(1);
    if (isOver && connection.open.length > 1) {
      socket.destroy();
      return undefined;
    }
    return connection;
  }

  /** The socket belongs to another protocol from now on. */
  upgrade(socket: Socket): void {
    const connection = this.bySocket.get(socket);
    if (connection !== undefined) {
      connection.state = 'upgraded';
      this.withoutRequest.delete(connection);
    }
  }

  /** Ends idle connections after 50 ms, because a request may be on its way, and others with their response or in time. */
  async stop(closed: Promise<unknown> | undefined): Promise<void> {
    this.isStopping = true;
    this.bySocket.forEach((connection) => connection.stop());
    const destroy = (most: number) =>
      this.bySocket.forEach(
        ({ open, state }, socket) =>
          open.length <= most && (state !== 'upgraded' || most > 0) && socket.destroy(),
      );
    setTimeout(destroy, 50, 0).unref();
    setTimeout(destroy, this.limits.stopTimeout, Infinity).unref();
    await closed;
  }

  /** The server is closed. */
  stopWatching(): void {
    clearInterval(this.watching);
  }

  private noteExcess(connection: Connection): undefined {
    this.excess += 1;
    if (connection.excess === this.limits.excessPerConnection) {
      if (this.excess > this.limits.excess) {
        connection.socket.destroy();
      }
      if (connection.network !== '') {
        this.noteFlood(connection.network);
      }
    }
  }

  /** Also before the next packet of this turn is read: a thousand connections may send one at once. */
  private noteFlood(network: string): void {
    const flood: Flood = this.floods.get(network) ?? { unread: [], until: 0 };
    this.hasFlooded = true;
    flood.until = performance.now() + this.limits.floodedFor;
    this.floods.set(network, flood);
    for (const connection of this.bySocket.values()) {
      const { network: own, state, socket } = connection;
      if (own === network && state === 'open' && !socket.isPaused()) {
        this.readLater(connection, flood);
      }
    }
  }

  private readLater(connection: Connection, { unread }: Flood): void {
    connection.socket.pause();
    unread.push(connection);
    this.continueReading();
  }

  private continueReading(): void {
    if (!this.isReading) {
      this.isReading = true;
      const delay = this.hasFlooded ? this.limits.floodPause : 0;
      this.hasFlooded = false;
      if (delay > 0) {
        setTimeout(this.readNext, delay).unref();
      } else {
        setImmediate(this.readNext);
      }
    }
  }

  private readonly readNext = (): void => {
    this.isReading = false;
    for (const [network, flood] of this.floods) {
      const connection = flood.unread.shift();
      if (connection !== undefined) {
        connection.socket.resume();
        this.floods.delete(network);
        this.floods.set(network, flood);
        // When it has been read.
        setImmediate(() => this.continueReading());
        return;
      }
    }
  };

  private remove(response: Response, connection: Connection): void {
    const { socket, open } = connection;
    if (!open.includes(response)) {
      return;
    }
    connection.remove(response);
    this.requests -= this.weightOf(response.req.headBytes);
    response.noteClosed();
    this.sendQueues.noteWritten(connection);
    this.checkSendQueues();
    const { receivedAt } = response.req;
    if (receivedAt > connection.movedAt + 1000 && this.bySocket.delete(socket)) {
      this.bySocket.set(socket, connection);
      connection.movedAt = receivedAt;
    }
    // Its header may have said that the connection stays open.
    if (this.isStopping && open.length === 0) {
      socket.destroySoon();
    }
  }

  /** The time limits are Node's. This bounds the bytes of what has not arrived completely, and of what is not read. */
  private watch(): void {
    const now = performance.now();
    for (const [network, { unread, until }] of this.floods) {
      if (unread.length === 0 && until < now) {
        this.floods.delete(network);
      }
    }
    const arriving = new Map<string, number>();
    let weight = this.requests;
    const large = [...this.bySocket.values()].filter((connection) => {
      const own = this.weightOf(connection.arrivingBytes) - 1;
      weight += own;
      arriving.set(connection.network, (arriving.get(connection.network) ?? 0) + own);
      return own > 0 && connection.state === 'open';
    });
    if (weight > this.limits.openRequests) {
      const of = ({ network }: Connection) => arriving.get(network)!;
      for (const connection of large.toSorted((one, other) => of(other) - of(one))) {
        weight -= this.weightOf(connection.arrivingBytes) - 1;
        connection.socket.destroy();
        if (weight <= this.limits.openRequests) {
          break;
        }
      }
    }
    this.checkSendQueues();
  }

  private checkSendQueues(): void {
    if (this.sendQueues.isDue) {
      void this.sendQueues.check(this.bySocket.values());
    }
  }

  /** As many requests as a head of so many bytes counts as. Of what has not arrived, Node holds one packet at most. */
  private readonly weightOf = (bytes: number) =>
    1 + Math.min(Math.floor(bytes / this.limits.requestBytes), 16);

  /** Closes the idlest connection that has at least so many requests. @returns whether there was one. */
  private makeRoom(requests: number): boolean {
    for (const candidates of [this.withoutRequest, this.bySocket.values()]) {
      for (const connection of candidates) {
        const { open, state } = connection;
        const waitsForClient = open.every((it) => it.writableEnded || it.writableNeedDrain);
        if (open.length >= requests && waitsForClient && state !== 'upgraded') {
          this.bySocket.delete(connection.socket);
          this.withoutRequest.delete(connection);
          connection.socket.destroy();
          // Before the socket's `close`: until then, more would be closed for them.
          [...open].forEach((response) => this.remove(response, connection));
          return true;
        }
      }
    }
    return false;
  }

  private forget(connection: Connection): void {
    const { open, excess, socket } = connection;
    this.bySocket.delete(socket);
    this.withoutRequest.delete(connection);
    this.excess -= excess;
    this.sendQueues.noteRead(connection);
    this.left(open.length + excess);
    // Node emits no `close` for a response that waits for others of its connection. The log and the guards need it.
    setImmediate(() => [...open].forEach((waiting) => waiting.emit('close')));
  }
}
