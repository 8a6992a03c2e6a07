import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { HTTP_LIMITS } from './limits.js';

/** Connections that are being ended: of these nothing is answered any more. */
const ending = new WeakSet<Duplex>();

/** Connections whose last request has come: what follows on them is not begun (RFC 9112, section 9.6). */
const takingNoMore = new WeakSet<Duplex>();

export const isEnding = (socket: Duplex): boolean => ending.has(socket);

/** Takes no request on a connection after the one that came last. */
export function takeNoMore(socket: Duplex): void {
  takingNoMore.add(socket);
}

export const takesMore = (socket: Duplex): boolean => !takingNoMore.has(socket);

/**
 * Ends a connection after `text`. What the client still sends is read and dropped for a while, unparsed: closing at once
 * would reset the connection, and the client might never see its answer (RFC 9112, section 9.6).
 */
export function endSoon(socket: Duplex, text = ''): void {
  ending.add(socket);
  takingNoMore.add(socket);
  // Node has no listener left on some of these sockets.
  socket.on('error', () => socket.destroy());
  stopParsing(socket as ParsedSocket);
  socket.end(text);
  socket.resume();
  setTimeout(() => socket.destroy(), HTTP_LIMITS.lingerTimeout).unref();
}

/** Has Node, which closes a connection at once after its last answer, do so only where `isAllRead` says so. */
export function endGently(socket: Socket, isAllRead: () => boolean): void {
  socket.destroySoon = () =>
    isAllRead() ? Socket.prototype.destroySoon.call(socket) : endSoon(socket);
}

/** Node's parser takes what a socket reads before anyone else sees it, until it is told to stop. */
function stopParsing(socket: ParsedSocket): void {
  if (socket.parser?._consumed) {
    socket.parser.unconsume();
    socket.parser._consumed = false;
  }
  socket.removeAllListeners('data');
}

/** What Node's types leave out. */
type ParsedSocket = Duplex & { parser?: { _consumed: boolean; unconsume(): void } | null };
