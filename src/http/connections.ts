import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { Connection } from './connection.js';
import { HTTP_LIMITS } from './limits.js';
import type { Response } from './response.js';

/** Milliseconds between two looks at all connections. */
const WATCH_EVERY = 250;

/** The open connections of the HTTP server, looked at a few times a second: timers for each request would cost more. */
export class Connections {
  private readonly open = new Map<Socket, Connection>();
  private readonly watching: NodeJS.Timeout;
  /** Requests that wait on any of them. */
  private waiting = 0;

  /**
   * @param onLook is told the time of each look: `performance.now()`.
   * @param onOverdue responds to a request that took too long.
   */
  constructor(
    server: Server,
    onLook: (now: number) => void,
    onOverdue: (response: Response) => void,
  ) {
    server.maxConnections = HTTP_LIMITS.connections;
    server.on('connection', (socket: Socket) => {
      this.open.set(socket, new Connection(socket, (more) => this.countWaiting(more)));
      socket.once('close', () => this.open.delete(socket));
    });
    this.watching = setInterval(() => {
      const now = performance.now();
      onLook(now);
      for (const connection of this.open.values()) {
        const response = connection.overdue(now);
        if (response !== undefined) {
          onOverdue(response);
        }
      }
    }, WATCH_EVERY).unref();
  }

  get count(): number {
    return this.open.size;
  }

  /** @returns `undefined` for a connection that was closed: what is left of its last bytes still comes. */
  of(socket: Socket): Connection | undefined {
    return this.open.get(socket);
  }

  /** Closes every connection on which no request is handled. */
  closeIdle(): void {
    for (const { isIdle, socket } of this.open.values()) {
      if (isIdle) {
        socket.destroy();
      }
    }
  }

  closeAll(): void {
    for (const socket of this.open.keys()) {
      socket.destroy();
    }
  }

  stopWatching(): void {
    clearInterval(this.watching);
  }

  /** Of more than {@link HTTP_LIMITS.waiting} requests, those of the connection that has most are dropped with it. */
  private countWaiting(more: number): void {
    this.waiting += more;
    if (more > 0 && this.waiting > HTTP_LIMITS.waiting) {
      const [longest] = [...this.open.values()].toSorted(
        (one, other) => other.waitingCount - one.waitingCount,
      );
      longest!.cut();
    }
  }
}
