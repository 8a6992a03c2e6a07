import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ErrorCode, ERRORS, errorBody } from '../errors/errors.js';
import type { Logger } from '../logging/logger.js';
import { endSoon, isEnding } from './ending.js';
import { JSON_MEDIA_TYPE } from './representation.js';
import type { Response } from './response.js';

/**
 * Answers a request that Node's HTTP parser refused with an Error body, unless its body was the fault and its handler
 * answers without, and closes the connection: after a malformed message nobody knows where the next one begins (RFC
 * 9112, section 2.2).
 */
export function onClientError(error: NodeJS.ErrnoException, socket: Duplex, log: Logger): void {
  // After the first, Node reports one for all that is read.
  if (!reported.has(socket)) {
    answerFault(error, socket, log);
  }
}

/** Connections with a fault that is answered after the requests before it. */
const reported = new WeakSet<Duplex>();

function answerFault(error: NodeJS.ErrnoException, socket: Duplex, log: Logger): void {
  if (isEnding(socket)) {
    return;
  }
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const pending = responseUnderWay(socket);
  const latest = latestResponse(socket);
  if (pending !== undefined && (pending !== latest || pending.req.complete)) {
    // Earlier requests on this connection were well-formed and are being answered: their answers go first.
    reported.add(socket);
    pending.once('close', () => setImmediate(answerFault, error, socket, log));
    return;
  }
  const [code, message] = CLIENT_ERRORS[error.code ?? ''] ?? MALFORMED;
  const isInBody = latest !== undefined && !latest.req.complete;
  const isBodyWanted = latest?.req.isBodyRead || error.code === NO_END;
  if (!isInBody || (isBodyWanted && !latest.isAnswered)) {
    refuse(socket, code, message, log);
  } else if (latest.writableFinished) {
    // It has its answer; a second one would be taken for the next request's.
    endSoon(socket);
  } else if (latest.req.refuseBody === undefined) {
    // Its answer may need no body: it has no key, or no use for one. The handler asks for the body, or answers without.
    latest.req.refuseBody = () => refuse(socket, code, message, log);
    latest.once('finish', () => endSoon(socket));
  }
}

/** Refuses a CONNECT (RFC 9110, section 9.3.6), after the answers to the requests before it on its connection. */
export function onConnect(id: string, socket: Duplex, log: Logger): void {
  // Node has taken its own listener off.
  socket.once('error', () => socket.destroy());
  const refuseInTurn = () => {
    const pending = responseUnderWay(socket);
    if (!socket.writable) {
      socket.destroy();
    } else if (pending !== undefined) {
      pending.once('close', () => setImmediate(refuseInTurn));
    } else {
      refuse(socket, 'route_not_found', 'No such path.', log, id);
    }
  };
  refuseInTurn();
}

/** Headers that are added to any answer; a handler that was under way may have added its own. */
const OF_ALL = /^(Vary|Access-Control-.+|RateLimit.*)$/;

/** Writes an Error body to a bare socket and ends it. `madeId` is for what never became a request under way. */
export function refuse(
  socket: Duplex,
  code: ErrorCode,
  message: string,
  log: Logger,
  madeId: string = randomUUID(),
): void {
  const { status } = ERRORS[code];
  const response = responseUnderWay(socket);
  const request = response?.req;
  const id = request?.id ?? madeId;
  const body = JSON.stringify(errorBody(code, message));
  const added = Object.entries(response?.addedHeaders ?? {}).filter(([name]) => OF_ALL.test(name));
  endSoon(
    socket,
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n` +
      `Content-Type: ${JSON_MEDIA_TYPE}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n` +
      `X-Request-Id: ${id}\r\n` +
      'Cache-Control: no-store\r\n' +
      'X-Content-Type-Options: nosniff\r\n' +
      'Connection: close\r\n' +
      added.map(([name, value]) => `${name}: ${value}\r\n`).join('') +
      `\r\n${body}`,
  );
  if (request === undefined) {
    log.info({ request: id, status, client: (socket as Socket).remoteAddress }, 'request');
  } else {
    request.refusedWith = status;
  }
}

/**
 * Where a connection has the response to the request that came last, as Node has the one under way. V8 would look through
 * all of a WeakMap whenever it collects its young generation.
 */
const LATEST = Symbol('latest response');
type WithLatest = Duplex & { [LATEST]?: Response };

/** Whether the request that came last on a connection has come whole. */
export function isAllRead(socket: Duplex): boolean {
  return latestResponse(socket)?.req.complete ?? true;
}

/** Notes that the request of `response` is the last one, so far, of its connection. */
export function rememberLatest(response: Response): void {
  (response.req.socket as WithLatest)[LATEST] = response;
}

/** The response to the request that came last on a connection. */
export function latestResponse(socket: Duplex): Response | undefined {
  return (socket as WithLatest)[LATEST];
}

/** Node's code for a body whose end nobody can find (RFC 9112, section 6.3): the fault is in the header already. */
const NO_END = 'HPE_INVALID_TRANSFER_ENCODING';

export const ONE_OF_VERSIONS = 'The version of HTTP must be 1.1 or 1.0.';

/** Node's codes: `HPE_…` from its parser, `ERR_HTTP_REQUEST_TIMEOUT` from its time limits. */
const CLIENT_ERRORS: Readonly<Record<string, [ErrorCode, string]>> = {
  HPE_INVALID_METHOD: [
    'invalid_request',
    'The request is not well-formed HTTP, or has a method that nobody knows.',
  ],
  HPE_INVALID_VERSION: ['invalid_request', ONE_OF_VERSIONS],
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The request line and headers are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [
    'payload_too_large',
    "The body's chunk extensions are too large.",
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time.'],
};

const MALFORMED: [ErrorCode, string] = ['invalid_request', 'The request is not well-formed HTTP.'];

/** The response that a connection is busy with. Node keeps it on the socket, and nowhere else. */
export function responseUnderWay(socket: Duplex): Response | undefined {
  return (socket as { _httpMessage?: Response | null })._httpMessage ?? undefined;
}
