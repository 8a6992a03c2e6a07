import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { type ErrorCode, ERRORS, errorBody } from '../errors/errors.js';
import { HTTP_LIMITS } from './limits.js';
import { JSON_MEDIA_TYPE } from './representation.js';
import type { Request } from './request.js';
import type { Response } from './response.js';

/**
 * The state of one connection. Its requests are handled one at a time, in their order. So a list shows what an earlier
 * request of the same connection created (RFC 9112, section 9.3.2), and pipelining gives no client an advantage.
 */
export class Connection {
  /** Requests that wait for the response to the one before them. */
  private waiting: (() => void)[] = [];
  /** The response to the request that is handled. */
  private current?: Response = undefined;
  /** The response to the request that came last. */
  private latest?: Response = undefined;
  private isEnding = false;
  private isPausing = false;
  private isMalformed = false;
  /** When the period began that {@link overdue} limits: that of `current`, or the idle period if there is none. */
  private since = performance.now();

  /** @param onWaiting is called with the change in the number of waiting requests. */
  constructor(
    readonly socket: Socket,
    private readonly onWaiting: (more: number) => void,
  ) {
    // Reads the address now, and Node caches it: it cannot be read after the client has disconnected.
    void socket.remoteAddress;
    socket.once('close', () => this.dropWaiting());
  }

  get isIdle(): boolean {
    return this.current === undefined && this.waiting.length === 0;
  }

  get waitingCount(): number {
    return this.waiting.length;
  }

  /** Calls `handle` for a request when it is its turn, unless the connection ends first. */
  take(response: Response, handle: () => void): void {
    if (this.isEnding) {
      return;
    }
    this.latest = response;
    const begin = () => {
      this.current = response;
      this.since = performance.now();
      handle();
    };
    if (this.current === undefined) {
      begin();
    } else {
      this.waiting.push(begin);
      this.onWaiting(1);
      this.pauseWhileOthersWait();
    }
  }

  /**
   * Called when a whole response has been passed to Node. The next request is handled once Node has written this
   * response to the socket.
   */
  sent(response: Response): void {
    if (response !== this.current) {
      return;
    }
    if (this.waiting.length === 0) {
      this.current = undefined;
      this.since = performance.now();
    } else {
      // In a separate turn of the event loop, so that other connections are served in between.
      const beginNext = () => setImmediate(() => this.beginNext());
      if (response.writableFinished) {
        beginNext();
      } else {
        response.once('close', beginNext);
      }
    }
  }

  /** Handles no request after the one of `response` (RFC 9112, section 9.6). */
  endAfter(response: Response): void {
    response.shouldKeepAlive = false;
    this.isEnding = true;
    this.dropWaiting();
  }

  isLatest(response: Response): boolean {
    return this.latest === response;
  }

  /** The response to the request whose body is still arriving, if there is one. */
  get arriving(): Response | undefined {
    return this.latest?.req.complete === false ? this.latest : undefined;
  }

  /**
   * Sends an Error for input that could not be parsed as a request, after the responses to earlier requests. Then ends
   * the connection. Later malformed input is ignored.
   */
  refuse(id: string, code: ErrorCode, message: string, onRefused: (status: number) => void): void {
    if (this.isMalformed) {
      return;
    }
    this.isMalformed = true;
    const refuseNow = () => {
      if (!this.socket.writable) {
        this.socket.destroy();
      } else {
        const { status } = ERRORS[code];
        this.end(errorResponse(id, code, message));
        onRefused(status);
      }
    };
    if (this.latest === undefined || this.latest.writableFinished) {
      refuseNow();
    } else {
      this.latest.once('close', () => setImmediate(refuseNow));
    }
  }

  /**
   * Ends the connection after `text`. What the client still sends is discarded for a while: an immediate close would
   * reset the connection, and the client might miss the response (RFC 9112, section 9.6).
   */
  end(text = ''): void {
    this.isEnding = true;
    this.dropWaiting();
    this.socket.once('end', () => this.socket.destroy());
    this.socket.end(text);
    this.socket.resume();
    setTimeout(() => this.socket.destroy(), HTTP_LIMITS.lingerTimeout).unref();
  }

  /**
   * Like {@link end}, for a connection on which the rest of a request's body is still arriving. Discarding a chunk is
   * costly, so the connection is closed after {@link HTTP_LIMITS.bodyChunks} of them.
   */
  endAfterRest(request: Request): void {
    let chunks = 0;
    request.on('data', () => {
      chunks += 1;
      if (chunks > HTTP_LIMITS.bodyChunks) {
        this.cut();
      }
    });
    this.end();
  }

  /**
   * Checks the time limits of this connection, and closes it if it is idle for too long.
   *
   * @returns the response that took too long, if there is one.
   */
  overdue(now: number): Response | undefined {
    const { current } = this;
    if (current === undefined) {
      // Node's keep-alive time-out starts again with each byte, even of empty lines between requests. So it does not
      // limit how long a client can stay without a request.
      if (now - this.since > HTTP_LIMITS.keepAliveTimeout + HTTP_LIMITS.headersTimeout) {
        this.socket.destroy();
      }
      return undefined;
    }
    if (!current.req.complete && current.req.bodyError === undefined) {
      // The time of the response begins when the body has arrived. Until then, Node enforces HTTP_LIMITS.requestTimeout.
      this.since = now;
    }
    const isOverdue = !current.isReplied && now - this.since > HTTP_LIMITS.responseTimeout;
    return isOverdue ? current : undefined;
  }

  /**
   * Called if no data was sent or received for {@link HTTP_LIMITS.takeTimeout}, or between requests for
   * {@link HTTP_LIMITS.keepAliveTimeout}. Closes the connection, unless the body of the current request is still
   * arriving: that request gets 408 after {@link HTTP_LIMITS.requestTimeout}.
   */
  timedOut(): void {
    if (this.arriving === undefined || this.arriving !== this.current) {
      this.cut();
    }
  }

  /** Closes the connection at once, and drops its waiting requests. */
  cut(): void {
    this.isEnding = true;
    this.dropWaiting();
    this.socket.destroy();
  }

  private beginNext(): void {
    this.current = undefined;
    const begin = this.waiting.shift();
    if (begin !== undefined) {
      this.onWaiting(-1);
      this.pauseWhileOthersWait();
      begin();
    }
  }

  /**
   * Stops reading while requests wait, so that TCP slows down a client that sends too fast. Node resumes reading after
   * each request; the microtask pauses it again before anything is read.
   */
  private pauseWhileOthersWait(): void {
    if (!this.isPausing) {
      this.isPausing = true;
      queueMicrotask(() => {
        this.isPausing = false;
        if (this.waiting.length > 0) {
          this.socket.pause();
        } else {
          this.socket.resume();
        }
      });
    }
  }

  private dropWaiting(): void {
    this.onWaiting(-this.waiting.length);
    this.waiting = [];
  }
}

function errorResponse(id: string, code: ErrorCode, message: string): string {
  const body = errorBody(code, message);
  const text = JSON.stringify(body);
  return [
    `HTTP/1.1 ${body.status} ${STATUS_CODES[body.status]}`,
    `Content-Type: ${JSON_MEDIA_TYPE}`,
    `Content-Length: ${Buffer.byteLength(text)}`,
    `X-Request-Id: ${id}`,
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    'Connection: close',
    '',
    text,
  ].join('\r\n');
}
