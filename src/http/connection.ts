import type { Socket } from 'node:net';
import type { Request, Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';

/**
 * A client's connection. Node alone decides which response is sent next. This decides which requests are handled, and how
 * the connection ends. Its states, none of which leads back:
 *
 * - `open`: requests are handled.
 * - `last`: a request has come after which none is handled ({@link take}, {@link stop}). Its response says
 *   `Connection: close`, and Node ends the connection with it.
 * - `ended`: input has come that is not a request, or one too many ({@link end}). When the responses before it are
 *   complete, the connection ends, with an error as its last words if that was not a response's.
 * - `upgraded`: the socket belongs to another protocol, such as a module's WebSockets.
 */
export class Connection {
  state: 'open' | 'last' | 'ended' | 'upgraded' = 'open';
  /** The responses that are not complete, in the order of their requests. */
  readonly open: Response[] = [];
  /** To its latest request, until both are complete. Kept longer, it would survive collections of garbage. */
  latest?: Response = undefined;
  /** Requests that came after the last one, and are not handled. */
  excess = 0;
  /** `performance.now()` when it moved to the end of the order in which connections were last used. */
  movedAt = 0;
  /** The bytes that its client had received when that was last known to grow, and `performance.now()` then. */
  received = 0;
  receivedAt = performance.now();
  /** Bytes that were read and belong to complete requests. */
  private parsed = 0;
  private lastWords = () => '';

  /** @param network the client's: {@link networkOf}. */
  constructor(
    readonly socket: Socket,
    readonly network: string,
    private readonly limits: HttpLimits,
  ) {}

  /** Its latest request, if that has not arrived completely. */
  get arriving(): Request | undefined {
    return this.latest?.req.complete === false ? this.latest.req : undefined;
  }

  /** Bytes of a head or a body that has not arrived completely. Those of the framing of chunks count too. */
  get arrivingBytes(): number {
    return this.state === 'open' ? this.socket.bytesRead - this.parsed : 0;
  }

  /** A request has come that is handled. */
  take(response: Response): void {
    const { req } = response;
    if (endsConnection(req)) {
      this.stop(response);
    }
    this.noteParsed(req.headBytes);
    this.latest = response;
    this.open.push(response);
  }

  /** A request has come after the last one. What was read together with it is parsed all the same. */
  noteExcess(): void {
    this.excess += 1;
    const pause = () => {
      // What comes after the end is discarded, but of a flood: to parse it takes long.
      if (this.socket.writable || this.excess >= this.limits.excessPerConnection) {
        this.socket.pause();
      }
    };
    if (this.excess === 1) {
      // Node resumes a socket when it has sent what waited.
      this.socket.on('resume', pause);
    }
    pause();
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
   * @param lastWords a whole response as text, to input that is not a request.
   */
  end(lastWords?: () => string): void {
    if (this.state === 'open') {
      this.state = 'ended';
      this.lastWords = lastWords ?? this.lastWords;
      this.endAfterResponses();
    }
  }

  /** A response is complete, or its client has left. */
  remove(response: Response): void {
    this.open.splice(this.open.indexOf(response), 1);
    const { complete, bodyBytes } = response.req;
    this.parsed += bodyBytes;
    if (this.latest === response && complete) {
      this.latest = undefined;
    }
    if (this.state === 'ended') {
      this.endAfterResponses();
    }
  }

  private endAfterResponses(): void {
    if (this.open.length > 0 || !this.socket.writable) {
      return;
    }
    this.socket.end(this.lastWords());
    // Discards what the client still sends: a reset might take the response from it (RFC 9112, section 9.6).
    this.socket.resume();
    setTimeout(() => this.socket.destroy(), this.limits.lingerTimeout).unref();
  }

  /** Spaces and the framing of chunks are not parts of {@link Request.headBytes}. So few bytes are not counted. */
  private noteParsed(bytes: number): void {
    this.parsed += bytes;
    const { bytesRead } = this.socket;
    if (bytesRead - this.parsed < 1024) {
      this.parsed = bytesRead;
    }
  }
}

/**
 * Node's parser cannot go on after a request for another protocol, which `Connection` names (RFC 9110, section 7.8); RFC
 * 9112, section 6.1, requires it for HTTP/1.0.
 */
const endsConnection = ({ headers, httpVersion }: Request) =>
  (!!headers.upgrade && /(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i.test(headers.connection ?? '')) ||
  (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined);
