import type { Socket } from 'node:net';
import type { Request, Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';

/**
 * A client's connection. Node alone decides which response is sent next. This decides which requests are handled, and how
 * the connection ends. Its states, none of which leads back:
 *
 * - `open`: requests are handled.
 * - `last`: a request has come after which none is handled ({@link noteRequest}, {@link stop}). Its response says
 *   `Connection: close`, and Node ends the connection with it.
 * - `ended`: input has come that is not a request, or one too many ({@link end}). When the responses before it are
 *   complete, the connection ends, with an error as its last words if that was not a response's.
 * - `upgraded`: the socket belongs to another protocol, such as a module's WebSockets.
 * - `done`: Node has destroyed the socket, which stays open until its client has read what the system holds for it, or is
 *   reset ({@link closeWhenRead}). Nothing is read or sent.
 * - `closed`: its socket is closed, or about to be. Node parses the rest of its last packet all the same.
 */
export class Connection {
  state: 'open' | 'last' | 'ended' | 'upgraded' | 'done' | 'closed' = 'open';
  /** The responses that are not complete, in the order of their requests. */
  readonly responses: Response[] = [];
  /** To its latest request. Dropped with the response, if that request has arrived: kept, it would outlive collections. */
  latest?: Response = undefined;
  /** Requests that came after the last one, and are not handled. */
  excess = 0;
  /** `performance.now()` when it moved to the end of the order in which connections were last used. */
  movedAt = 0;
  /** The bytes that its client had received when that was last known to grow, and `performance.now()` then. */
  received = 0;
  progressAt = performance.now();
  /** Its socket is closed as soon as Node destroys it. */
  closesAtOnce = false;
  /** Bytes that were read and belong to complete requests. */
  private parsed = 0;
  private lastWords: () => string = () => '';

  /** @param network the client's: {@link networkOf}. */
  constructor(
    readonly socket: Socket,
    readonly network: string,
    private readonly limits: HttpLimits,
  ) {}

  /**
   * Node destroys a socket as soon as the system has its last response. The system keeps what the client does not read, for
   * minutes, and nothing can reset it then. So the socket stays open if that may be more than a little.
   *
   * @param onDone called when it is `done`.
   */
  closeWhenRead(onDone: () => void): void {
    const { socket } = this;
    const destroy = socket.destroy.bind(socket);
    socket.destroy = (error?: Error): Socket => {
      if (error || socket.destroyed || this.closesAtOnce || !this.isUnread) {
        return destroy(error);
      }
      this.state = 'done';
      onDone();
      // A response that was broken off must not look complete.
      return socket.end().pause();
    };
  }

  /** Whether the client may have more to read than a closed connection may leave to the system. */
  private get isUnread(): boolean {
    return this.socket.bytesWritten - this.received > this.limits.unreadBytesAtClose;
  }

  /** Its latest request, if that has not arrived completely. */
  get arriving(): Request | undefined {
    return this.latest?.req.complete === false ? this.latest.req : undefined;
  }

  /** Bytes of a head or a body that has not arrived completely, or, if no further request is handled, is not read yet. */
  get arrivingBytes(): number {
    const { bytesRead, readableLength } = this.socket;
    // Node's parser has the head that comes after the last request.
    return this.state === 'open' || (this.state === 'last' && this.excess === 0)
      ? Math.max(0, bytesRead - this.parsed - this.discarded)
      : this.responses.reduce((sum, { req }) => sum + req.readableLength, readableLength);
  }

  /** Bytes of the latest request's body, if that still arrives after its response. */
  private get discarded(): number {
    const { latest } = this;
    return latest !== undefined && !this.responses.includes(latest) ? bodyBytesOf(latest) : 0;
  }

  /** A request has come that is handled. */
  noteRequest(response: Response): void {
    const { req } = response;
    if (endsConnection(req)) {
      this.stop(response);
    }
    this.parsed += this.discarded + req.headBytes;
    // Of a body, more may have been read than is known yet.
    if (!hasBody(req)) {
      this.noteParsed();
    }
    this.latest = response;
    this.responses.push(response);
  }

  /** A request has come after the last one. What was read together with it is parsed all the same. */
  noteExcess(): void {
    this.excess += 1;
    const { socket } = this;
    if (this.excess === 1 && socket.writable) {
      // Node resumes a socket when it has sent what waited.
      socket.on('resume', () => socket.writable && socket.pause()).pause();
    }
    if (this.excess === this.limits.excessPerConnection) {
      this.endFlood();
    }
  }

  /** The response to the latest request is the last one, if it has not begun. */
  stop(latest = this.latest): void {
    if (this.state === 'open' && latest?.headersSent === false) {
      latest.setHeader('Connection', 'close');
      this.state = 'last';
    }
  }

  /**
   * Ends the connection after the responses so far. Until then, nothing that comes is handled.
   *
   * @param lastWords a whole response as text, to input that is not handled.
   */
  end(lastWords = this.lastWords): void {
    if (this.state === 'open') {
      this.state = 'ended';
      this.lastWords = lastWords;
      this.endAfterResponses();
    }
  }

  /** A response is complete, or its client has left. */
  remove(response: Response): void {
    this.responses.splice(this.responses.indexOf(response), 1);
    const isLatest = this.latest === response;
    if (!isLatest || response.req.complete) {
      this.parsed += bodyBytesOf(response);
      this.latest = isLatest ? undefined : this.latest;
    }
    if (this.responses.length === 0 && response.req.complete) {
      this.noteParsed();
    }
    if (this.state === 'ended') {
      this.endAfterResponses();
    }
  }

  /** Closes it at once. Nothing of it is left to the system. */
  close(): void {
    this.closesAtOnce = true;
    if (this.isUnread) {
      this.reset();
    } else {
      this.socket.destroy();
    }
  }

  /** libuv refuses to reset a connection that is being ended, and Node would then keep its descriptor. */
  reset(): void {
    const { socket } = this;
    this.closesAtOnce = true;
    if (socket.writableEnded && !socket.writableFinished && socket.writableLength === 0) {
      // Before Node closes it.
      socket.prependOnceListener('finish', () => socket.resetAndDestroy());
    } else {
      socket.resetAndDestroy();
    }
  }

  private endAfterResponses(): void {
    if (this.responses.length > 0 || !this.socket.writable) {
      return;
    }
    this.socket.end(this.lastWords());
    // Discards what the client still sends: a reset might take the response from it (RFC 9112, section 9.6).
    this.socket.resume();
    const linger = setTimeout(() => this.socket.destroy(), this.limits.lingerTimeout).unref();
    // It would keep the memory of a flood.
    this.socket.once('close', () => clearTimeout(linger));
    this.endFlood();
  }

  /** To parse what a flood's client still sends takes long, and what has been parsed takes memory. */
  private endFlood(): void {
    if (this.excess >= this.limits.excessPerConnection && !this.socket.writable) {
      this.socket.destroySoon();
    }
  }

  /** Spaces are not parts of {@link Request.headBytes}, nor extensions of chunks. So few bytes are not counted. */
  private noteParsed(): void {
    const bodies = this.responses.reduce((sum, one) => sum + bodyBytesOf(one), 0);
    const known = this.socket.bytesRead - bodies;
    if (known - this.parsed < 1024) {
      this.parsed = known;
    }
  }
}

/** With the framing of chunks: two digits, and two line ends. */
const bodyBytesOf = ({ req: { bodyBytes, chunks, headers } }: Response) =>
  bodyBytes + (headers['transfer-encoding'] === undefined ? 0 : 6 * chunks);

export const hasBody = ({ headers }: Request): boolean =>
  headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;

/**
 * Node's parser cannot go on after a request for another protocol, which `Connection` names (RFC 9110, section 7.8); RFC
 * 9112, section 6.1, requires it for HTTP/1.0.
 */
const endsConnection = ({ headers, httpVersion }: Request) =>
  (!!headers.upgrade && /(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i.test(headers.connection ?? '')) ||
  (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined);
