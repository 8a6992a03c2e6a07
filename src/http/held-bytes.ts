import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Connection } from './connection.js';
import type { Readers } from './connections.js';
import type { HttpLimits } from './limits.js';
import { kernelName } from './network.js';

/** Where Linux lists the TCP connections of this process's network. */
const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6'];

/**
 * A connection with unread bytes, of which each side may have ended its own: its local port, the remote address without what
 * maps IPv4 to IPv6, the remote port, and the bytes that the client and this process have not read.
 */
const UNREAD =
  /: [0-9A-F]+:([0-9A-F]{4}) (?:0{16}FFFF0000)?([0-9A-F]+:([0-9A-F]{4})) 0[1489B] (?!0{8}:0{8})([0-9A-F]{8}):([0-9A-F]{8})/g;

/** Milliseconds in which most clients read what the system holds for them. */
const SOON = 50;

/** Node holds a head as strings that take so many times its bytes. */
const STRINGS = 2.5;

/**
 * Limits the bytes that clients make the process and the system hold: heads, bodies that arrive, and responses that they do
 * not read. Node counts a response as sent when the system has it, which may be 4 MiB for each connection. Only Linux tells
 * how much of that is unread; elsewhere, it is not limited.
 */
export class HeldBytes {
  /** Bytes of heads that came, and of responses that began, since the last check. */
  private since = 0;
  private due?: NodeJS.Timeout;
  /** `performance.now()` before which there is no further check, so that checks take at most a tenth of the time. */
  private next = 0;
  /** How often {@link watch} was called. */
  private seconds = 0;

  /** @param readers `crowded` is called with `true` when a check is due, and with `false` after it. */
  constructor(
    private readonly limits: HttpLimits,
    private readonly connections: () => Iterable<Connection>,
    private readonly readers: Pick<Readers, 'crowded'>,
  ) {}

  /** So many bytes of a head came into being, or a response of so many began. */
  note(bytes: number): void {
    this.since += bytes;
    if (this.since > this.limits.heldBytes / 4) {
      this.readers.crowded(true);
      this.checkSoon(0);
    }
  }

  /** Checks after so many milliseconds, or when checks may take time again. */
  checkSoon(milliseconds = SOON): void {
    const wait = Math.max(milliseconds, this.next - performance.now());
    this.due ??= setTimeout(() => this.check(), wait).unref();
  }

  /** Called every second. A check takes 40 ms if the system has 12,000 connections. */
  watch(): void {
    let arriving = this.since;
    let isOneDone = false;
    for (const connection of this.connections()) {
      arriving += STRINGS * connection.arrivingBytes;
      isOneDone ||= connection.state === 'done';
    }
    const isDue = ++this.seconds % 5 === 0 || isOneDone || arriving > this.limits.heldBytes / 4;
    if (isDue && performance.now() >= this.next) {
      this.check();
    }
  }

  /**
   * Closes the connections that are `done`, if their clients have read all but a little. Resets those whose clients
   * have received nothing for {@link HttpLimits.socketTimeout}. If too many bytes are
   * held, resets further ones: first of the network with the most bytes, those without progress since the last check, and
   * of these the largest.
   */
  check(): void {
    const start = performance.now();
    clearTimeout(this.due);
    this.due = undefined;
    this.since = 0;
    this.resetStalled(readUnread());
    this.next = performance.now() + 9 * (performance.now() - start);
    this.readers.crowded(false);
  }

  private resetStalled(unreadOf: (socket: Socket) => Unread): void {
    const now = performance.now();
    const byNetwork = new Map<string, number>();
    const holding: { connection: Connection; bytes: number; hasStalled: boolean }[] = [];
    let total = 0;
    for (const connection of this.connections()) {
      const { socket, responses, network, arrivingBytes } = connection;
      const { byClient: unread, byProcess } = unreadOf(socket);
      const received = socket.bytesWritten - socket.writableLength - unread;
      const unsent = responses.reduce((sum, { writableLength }) => sum + writableLength, 0);
      const hasStalled = unread + unsent > 0 && received === connection.received;
      if (!hasStalled) {
        Object.assign(connection, { received, progressAt: now });
      } else if (now - connection.progressAt > this.limits.socketTimeout) {
        connection.reset();
        continue;
      }
      if (connection.state === 'done' && unread <= this.limits.unreadBytesAtClose) {
        connection.close();
        continue;
      }
      const heads = responses.reduce((sum, { req }) => sum + req.headBytes, arrivingBytes);
      const bytes = unread + byProcess + unsent + STRINGS * heads;
      total += bytes;
      byNetwork.set(network, (byNetwork.get(network) ?? 0) + bytes);
      if (bytes > 0) {
        holding.push({ connection, bytes, hasStalled: hasStalled || arrivingBytes > 0 });
      }
    }
    if (total > this.limits.heldBytes) {
      const bytesOf = ({ connection }: (typeof holding)[0]) => byNetwork.get(connection.network)!;
      holding.sort(
        (one, other) =>
          bytesOf(other) - bytesOf(one) ||
          Number(other.hasStalled) - Number(one.hasStalled) ||
          other.bytes - one.bytes,
      );
      for (const { connection, bytes } of holding) {
        connection.reset();
        total -= bytes;
        if (total <= this.limits.heldBytes) {
          return;
        }
      }
    }
  }
}

function read(table: string): string {
  try {
    // Not as latin1, which Node reads slower.
    return readFileSync(table, 'utf8');
  } catch {
    // Another system than Linux.
    return '';
  }
}

/** Bytes that the system holds for the sides of a connection. */
interface Unread {
  byClient: number;
  byProcess: number;
}

const NOTHING: Unread = { byClient: 0, byProcess: 0 };

/** @returns what tells how many bytes the system holds for a socket. */
function readUnread(): (socket: Socket) => Unread {
  const connections = new Map<string, Unread>();
  const ports = new Set<number>();
  for (const [, local, client, port, sent, received] of TABLES.map(read)
    .join('')
    .matchAll(UNREAD)) {
    const name = `${parseInt(local!, 16)} ${client}`;
    // A client may connect from one port to several addresses of this machine.
    const { byClient, byProcess } = connections.get(name) ?? NOTHING;
    connections.set(name, {
      byClient: byClient + parseInt(sent!, 16),
      byProcess: byProcess + parseInt(received!, 16),
    });
    ports.add(parseInt(port!, 16));
  }
  return ({ localPort, remoteAddress = '', remotePort = 0 }) =>
    (ports.has(remotePort)
      ? connections.get(`${localPort} ${kernelName(remoteAddress, remotePort)}`)
      : undefined) ?? NOTHING;
}
