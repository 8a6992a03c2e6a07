import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { type ErrorCode, ERRORS, errorBody } from '../errors/errors.js';
import { HTTP_LIMITS } from './limits.js';
import { JSON_MEDIA_TYPE } from './representation.js';
import type { Request } from './request.js';
import type { Response } from './response.js';

/**
 * Everything that is known about one connection. Its requests are handled one at a time, in their order: so one that
 * lists finds what the one before it created (RFC 9112, section 9.3.2), and nobody gains by sending many at a time.
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
  /** Since when `current` is what it is: `performance.now()`. */
  private since = performance.now();

  /** @param onWaiting is told how many more requests wait, or fewer. */
  constructor(
    readonly socket: Socket,
    private readonly onWaiting: (more: number) => void,
  ) {
    // Node keeps what was read once; it cannot be read any more once the client has left.
    void socket.remoteAddress;
    socket.once('close', () => this.dropWaiting());
  }

  get isIdle(): boolean {
    return this.current === undefined && this.waiting.length === 0;
  }

  get waitingCount(): number {
    return this.waiting.length;
  }

  /** Calls `handle` for a request when its turn comes, unless the connection ends before. */
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
      this.readOnlyIfNoneWaits();
    }
  }

  /** The response was sent: the next request is handled once the client's side has taken it. */
  sent(response: Response): void {
    if (response !== this.current) {
      return;
    }
    if (this.waiting.length === 0) {
      this.current = undefined;
      this.since = performance.now();
    } else {
      // In a turn of the event loop of its own, so that other connections have theirs.
      const beginNext = () => setImmediate(() => this.beginNext());
      if (response.writableFinished) {
        beginNext();
      } else {
        response.once('close', beginNext);
      }
    }
  }

  /** Begins no request after the one of `response` (RFC 9112, section 9.6). */
  endAfter(response: Response): void {
    response.shouldKeepAlive = false;
    this.isEnding = true;
    this.dropWaiting();
  }

  isLatest(response: Response): boolean {
    return this.latest === response;
  }

  /** The request whose body is arriving, if Node's parser is in one. */
  get arriving(): Response | undefined {
    return this.latest?.req.complete === false ? this.latest : undefined;
  }

  /**
   * Sends an Error that is no response to a request that the service was given, after the responses to those before it,
   * and ends the connection. What follows on it, malformed too, is ignored.
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
   * Ends the connection after `text`. What the client still sends is read and dropped for a while: closing at once would
   * reset the connection, and the client might never see its response (RFC 9112, section 9.6).
   */
  end(text = ''): void {
    this.isEnding = true;
    this.dropWaiting();
    this.socket.once('end', () => this.socket.destroy());
    this.socket.end(text);
    this.socket.resume();
    setTimeout(() => this.socket.destroy(), HTTP_LIMITS.lingerTimeout).unref();
  }

  /** As {@link end}, while the rest of a request's body comes: one in ever more chunks would cost too much to drop. */
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
   * Looks at the times of this connection.
   *
   * @returns the response that took too long, if there is one.
   */
  overdue(now: number): Response | undefined {
    const { current } = this;
    if (current === undefined) {
      // Node counts from the last byte that came, and empty lines between requests are bytes.
      if (now - this.since > HTTP_LIMITS.keepAliveTimeout + HTTP_LIMITS.headersTimeout) {
        this.socket.destroy();
      }
      return undefined;
    }
    if (!current.req.complete && current.req.bodyError === undefined) {
      // A request that does not arrive is Node's to end: HTTP_LIMITS.requestTimeout.
      this.since = now;
    }
    const isOverdue = !current.isReplied && now - this.since > HTTP_LIMITS.responseTimeout;
    return isOverdue ? current : undefined;
  }

  /** Nothing was sent or taken for a while. A request that does not arrive is Node's to end, with 408. */
  timedOut(): void {
    if (this.arriving === undefined) {
      this.cut();
    }
  }

  /** Closes the connection, and drops what waits on it. */
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
      this.readOnlyIfNoneWaits();
      begin();
    }
  }

  /**
   * Reads no more while requests wait, so that whoever sends faster than it is served fills its own buffers. Node resumes
   * reading with each request that it is done with; at the end of the turn it is paused again before anything is read.
   */
  private readOnlyIfNoneWaits(): void {
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
