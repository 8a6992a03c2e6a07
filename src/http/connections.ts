import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { Connection } from './connection.js';
import { HTTP_LIMITS } from './limits.js';
import type { Response } from './response.js';

/** Milliseconds between two checks of all connections. */
const WATCH_EVERY = 250;

/**
 * The open connections of the HTTP server. Their time limits are checked a few times a second: a timer for each request
 * would cost more.
 */
export class Connections {
  private readonly open = new Map<Socket, Connection>();
  private readonly watching: NodeJS.Timeout;
  /** The number of requests that wait, on all connections. */
  private waiting = 0;

  /**
   * @param onLook called at each check with the time: `performance.now()`.
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

  /** @returns `undefined` for a closed connection, whose last bytes may still be parsed. */
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

  /** If more than {@link HTTP_LIMITS.waiting} requests wait, closes the connection with most of them. */
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
