import type { IncomingMessage } from 'node:http';

/**
 * Takes a request without a body, which has neither `Content-Length` nor `Transfer-Encoding` (RFC 9112, section 6.3),
 * for one that was read to its end. It emits no event then, and Node is spared a stream's whole life
 * (docs/performance.md). Node 24.12 and later can do the same, by the option `optimizeEmptyRequests`.
 */
export function skipEmptyBody(request: IncomingMessage): void {
  const { headers } = request;
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined) {
    return;
  }
  const { _readableState: state } = request as unknown as { _readableState: ReadableState };
  state.ended = true;
  state.endEmitted = true;
  state.destroyed = true;
  state.closed = true;
  state.closeEmitted = true;
  (request as { _dumped?: boolean })._dumped = true;
}

/** What a stream that was read, ended and closed says of itself. Node's types leave it out. */
type ReadableState = Record<
  'ended' | 'endEmitted' | 'destroyed' | 'closed' | 'closeEmitted',
  boolean
>;
