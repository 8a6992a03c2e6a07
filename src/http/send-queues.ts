import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import type { Connection } from './connection.js';
import type { HttpLimits } from './limits.js';
import { kernelName } from './network.js';

/** Where Linux lists the TCP connections of this process's network. */
const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6'];

/** An open connection with unread bytes: its local port, the end of the remote address, the remote port, and the bytes. */
const UNREAD =
  /: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]*?([0-9A-F]{8}:([0-9A-F]{4})) 01 (?!0{8})([0-9A-F]{8}):/g;

interface Progress {
  /** Bytes that the client has received. */
  received: number;
  /** `performance.now()` when a check found that it had received more. */
  at: number;
}

/**
 * Limits what the system holds for clients that do not read: Node counts a response as sent when the system has it, which
 * may be 4 MiB for each connection. Only Linux tells how much is unread; elsewhere, there is no such limit.
 */
export class SendQueues {
  /** Bytes that were written since the last request that began after all earlier responses: perhaps unread. */
  private perhapsUnread = 0;
  /** Bytes that were written since the last check. */
  private written = 0;
  private isChecking = false;
  private checkedAt = 0;
  /** Of connections with unread bytes. */
  private progress = new Map<Connection, Progress>();

  constructor(private readonly limits: HttpLimits) {}

  /** A response of the connection is complete. */
  noteWritten(connection: Connection): void {
    const { bytesWritten } = connection.socket;
    const bytes = bytesWritten - connection.written;
    connection.written = bytesWritten;
    connection.perhapsUnread += bytes;
    this.perhapsUnread += bytes;
    this.written += bytes;
  }

  /** The client has probably read all responses, because it sent the next request; or the connection is closed. */
  noteRead(connection: Connection): void {
    this.perhapsUnread -= connection.perhapsUnread;
    connection.perhapsUnread = 0;
  }

  /** Whether a {@link check} is due: soon after many bytes, and else every 5 seconds. It takes a thread up to 20 ms. */
  get isDue(): boolean {
    const { unreadInSystem: limit } = this.limits;
    const { perhapsUnread, written } = this;
    const isIdle = performance.now() - this.checkedAt > 5_000 && perhapsUnread > limit / 64;
    const isBusy = perhapsUnread > limit / 2 && written > limit / 2;
    return !this.isChecking && (isIdle || isBusy || written > 4 * limit);
  }

  /**
   * Resets the connections whose clients have received nothing for {@link HttpLimits.socketTimeout}. If too many bytes are
   * unread, resets connections without progress since the last check: first those of the network with the most such bytes.
   */
  async check(connections: Iterable<Connection>): Promise<void> {
    this.isChecking = true;
    const texts = await Promise.all(TABLES.map((file) => readFile(file, 'latin1').catch(() => '')));
    const queues = new Map<string, number>();
    const ports = new Set<number>();
    for (const [, local, client, port, bytes] of texts.join('').matchAll(UNREAD)) {
      queues.set(`${parseInt(local!, 16)} ${client}`, parseInt(bytes!, 16));
      ports.add(parseInt(port!, 16));
    }
    this.resetStalled(connections, ({ localPort, remoteAddress = '', remotePort = 0 }) =>
      ports.has(remotePort)
        ? queues.get(`${localPort} ${kernelName(remoteAddress, remotePort)}`)
        : undefined,
    );
    this.checkedAt = performance.now();
    this.written = 0;
    this.isChecking = false;
  }

  private resetStalled(
    connections: Iterable<Connection>,
    unreadOf: (socket: Socket) => number | undefined,
  ): void {
    const now = performance.now();
    const progress = new Map<Connection, Progress>();
    const byNetwork = new Map<string, { bytes: number; stalled: [Socket, number][] }>();
    let total = 0;
    for (const connection of connections) {
      const { socket, network } = connection;
      const bytes = unreadOf(socket);
      if (bytes === undefined) {
        continue;
      }
      const received = socket.bytesWritten - socket.writableLength - bytes;
      const before = this.progress.get(connection);
      const at = before === undefined || received > before.received ? now : before.at;
      if (now - at > this.limits.socketTimeout) {
        socket.resetAndDestroy();
        continue;
      }
      progress.set(connection, { received, at });
      total += bytes;
      const own = byNetwork.get(network) ?? { bytes: 0, stalled: [] };
      byNetwork.set(network, own);
      own.bytes += bytes;
      if (at < now) {
        own.stalled.push([socket, bytes]);
      }
    }
    this.progress = progress;
    const networks = [...byNetwork.values()].toSorted((one, other) => other.bytes - one.bytes);
    for (const [socket, bytes] of networks.flatMap(({ stalled }) => stalled)) {
      if (total <= this.limits.unreadInSystem) {
        return;
      }
      total -= bytes;
      socket.resetAndDestroy();
    }
  }
}
