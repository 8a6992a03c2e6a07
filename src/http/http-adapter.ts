import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server as HttpServer } from 'node:http';
import { isIP, Server, type Socket } from 'node:net';
import { setImmediate as endOfTurn, setTimeout as wait } from 'node:timers/promises';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type NextFunction, type RequestHandler } from 'express';
import type { Environment } from '../config/environment.js';
import { ApiError } from '../errors/api-error.js';
import { type ErrorCode, ERRORS, errorBody, type ErrorBody } from '../errors/errors.js';
import type { Logger } from '../logging/logger.js';
import { AdmissionQueue } from './admission-queue.js';
import type { Connection } from './connection.js';
import { Connections } from './connections.js';
import { Cors } from './cors.js';
import { HTTP_LIMITS } from './limits.js';
import { allowOf } from './methods.js';
import { parseQuery } from './query.js';
import { JSON_MEDIA_TYPE, Representation } from './representation.js';
import { Request } from './request.js';
import { requestId } from './request-id.js';
import { pathAndQuery } from './request-target.js';
import { addHeaders, type Headers, Response } from './response.js';
import { traceIdOf } from './trace.js';

/** Spares a request without a body the life of a stream. Node 20 ignores it, and its types do not have it. */
const FROM_NODE_24 = { optimizeEmptyRequests: true };

/** Milliseconds of an event loop's turn in which next to nothing can have come. */
const SHORT_TURN = 0.02;

/**
 * Express under Nest, on Node's HTTP server with this service's limits: rejects what is no request or too many, and
 * sends every response.
 */
export class HttpAdapter extends ExpressAdapter {
  declare protected httpServer: HttpServer;
  declare protected instance: Express;
  private connections!: Connections;
  private readonly queue = new AdmissionQueue();
  /** Responses to send in this turn of the event loop. */
  private toSend: Outgoing[] = [];
  /** The message of the last 503 to a request in its handler, if none was served since. */
  private unavailable: string | undefined;
  private stage: 'serving' | 'draining' | 'closing' = 'serving';

  private readonly cors: Cors | undefined;

  constructor(
    private readonly log: Logger,
    { CORS_ORIGINS, RATE_LIMIT_PER_MINUTE, TRUST_PROXY }: HttpSettings = {},
  ) {
    super(expressApp(TRUST_PROXY));
    this.cors = CORS_ORIGINS && new Cors(CORS_ORIGINS, RATE_LIMIT_PER_MINUTE !== undefined);
  }

  override initHttpServer(): void {
    this.httpServer = createServer(
      {
        ...constructorsFor(this.instance),
        // Two Authorization headers become one malformed one instead of the first of them.
        joinDuplicateHeaders: true,
        // Node's own 400 has no body.
        requireHostHeader: false,
        // Node refuses as many as this already.
        maxHeaderSize: HTTP_LIMITS.headerBytes + 1,
        headersTimeout: HTTP_LIMITS.headersTimeout,
        requestTimeout: HTTP_LIMITS.requestTimeout,
        keepAliveTimeout: HTTP_LIMITS.keepAliveTimeout,
        connectionsCheckingInterval: 1000,
        ...FROM_NODE_24,
      },
      (request, response) => this.accept(request, response),
    ) as unknown as HttpServer;
    this.connections = new Connections(
      this.httpServer,
      (now) => this.queue.letInOverdue(now),
      (response) =>
        this.replyError(response, 'unavailable', 'The answer takes too long; try again.'),
    );
    this.httpServer.setTimeout(HTTP_LIMITS.takeTimeout, ((socket: Socket) =>
      this.connections.of(socket)?.timedOut()) as () => void);
    // Node drops what is beyond: one more than a request may have tells that there were more.
    this.httpServer.maxHeadersCount = HTTP_LIMITS.headerFields + 1;
    // A client may end its side once its request is complete, and still wants the response.
    Object.assign(this.httpServer, { httpAllowHalfOpen: true });
    this.httpServer.on('clientError', (error, socket) =>
      this.rejectMalformed(error, socket as Socket),
    );
    this.httpServer.on('connect', ({ headers }: IncomingMessage, socket) => {
      // Node has taken its own listener off.
      socket.once('error', () => socket.destroy());
      this.refuse(socket as Socket, requestId(headers), 'route_not_found', 'No such path.');
    });
    // An expectation other than 100-continue may be ignored (RFC 9110, section 10.1.1).
    this.httpServer.on('checkExpectation', (request, response) =>
      this.httpServer.emit('request', request, response),
    );
  }

  override listen(port: any, ...args: any[]): HttpServer {
    const [callback, host] = args.toReversed();
    return this.httpServer.listen(port, host, HTTP_LIMITS.backlog, callback);
  }

  /** Whether the service is about to stop and wants no more requests. */
  get isStopping(): boolean {
    return this.stage !== 'serving';
  }

  /**
   * Prepares for {@link close} so that clients lose no request, or next to none (docs/reliability.md). First all is
   * served as ever, and only readiness says that the service is stopping: whoever asks for it sends the next requests
   * elsewhere. Then the service stops listening, and ends each connection with its next response: a proxy that did not ask
   * finds new connections refused, and can safely try another instance.
   *
   * @param milliseconds that readiness has to be noticed.
   * @param hurry ends this at once.
   */
  async drain(milliseconds: number, hurry: AbortSignal): Promise<void> {
    this.stage = 'draining';
    try {
      await wait(milliseconds, undefined, { signal: hurry });
      await this.onceNoConnectionComes();
      // Of net.Server: http.Server's own would end idle connections too.
      Server.prototype.close.call(this.httpServer);
      this.stage = 'closing';
      const end = performance.now() + HTTP_LIMITS.lastRequestTime;
      while (this.connections.count > 0 && performance.now() < end) {
        await wait(10, undefined, { signal: hurry });
      }
    } catch (error) {
      if (!hurry.aborted) {
        throw error;
      }
    }
  }

  /**
   * Stops listening and resolves when every request under way has its response, or has had its time. All other connections
   * are closed, those that become idle meanwhile too, which Node would keep for a next request.
   */
  override async close(): Promise<void> {
    this.stage = 'closing';
    const closed = new Promise<void>((resolve) => this.httpServer.close(() => resolve()));
    this.connections.closeIdle();
    const sweep = setInterval(() => this.connections.closeIdle(), 50);
    const deadline = setTimeout(() => this.connections.closeAll(), HTTP_LIMITS.stopTimeout);
    await closed;
    clearInterval(sweep);
    clearTimeout(deadline);
    this.connections.stopWatching();
  }

  /**
   * Resolves at the end of a short turn of the event loop in which no connection came. Connections that wait to be
   * accepted are reset when listening stops, maybe with a request on its way; then hardly one waits.
   */
  private async onceNoConnectionComes(): Promise<void> {
    const end = performance.now() + HTTP_LIMITS.quietTime;
    let came = 0;
    const count = () => (came += 1);
    this.httpServer.on('connection', count);
    let since: number;
    do {
      came = 0;
      since = performance.now();
      await endOfTurn();
    } while ((came > 0 || performance.now() - since > SHORT_TURN) && since < end);
    this.httpServer.off('connection', count);
  }

  private accept(request: Request, response: Response): void {
    request.receivedAt = performance.now();
    this.connections.of(request.socket)?.take(response, () => this.handle(request, response));
  }

  private handle(request: Request, response: Response): void {
    const { httpVersion } = request;
    const isTooLarge = hasTooManyFields(request);
    if (
      isTooLarge ||
      request.headers.upgrade !== undefined ||
      (httpVersion !== '1.1' && request.headers['transfer-encoding'] !== undefined)
    ) {
      // Node drops what else came in the packet of a request that asks for another protocol. Before HTTP/1.1 nobody knew
      // chunks, so where such a body ends is in doubt (RFC 9112, section 6.1).
      this.connections.of(request.socket)?.endAfter(response);
    }
    request.id = requestId(request.headers);
    request.url = pathAndQuery(request.url);
    response.isPreflight = this.cors?.addTo(response);
    if (isTooLarge) {
      const { headerFields } = HTTP_LIMITS;
      const message = `A request may have ${headerFields} header fields.`;
      this.replyError(response, 'headers_too_large', message);
      return;
    }
    if (httpVersion !== '1.1' && httpVersion !== '1.0') {
      this.replyError(response, 'invalid_request', ONE_OF_VERSIONS);
      return;
    }
    if (httpVersion === '1.1' && !isHost(request.headers.host)) {
      this.replyError(response, 'invalid_request', 'A request needs one valid Host header.');
      return;
    }
    if (request.url.startsWith('/health/')) {
      this.instance(request as never, response as never);
    } else if (this.queue.isFull) {
      const message = this.unavailable ?? 'The service is overloaded; try again.';
      this.replyError(response, 'unavailable', message);
      // A client that asks again at once would have the service do nothing but reject.
      const { socket } = request;
      response.once('close', () => {
        socket.pause();
        setTimeout(() => socket.resume(), HTTP_LIMITS.rejectedPause);
      });
    } else {
      this.queue.enter(() => {
        response.isAdmitted = true;
        this.instance(request as never, response as never);
      });
    }
  }

  /**
   * Responds to what Node's HTTP parser or its time limits reject. A handler is told of a malformed body, because its
   * response may not depend on it: the request may have no valid key. After anything else nobody knows where the next request begins
   * (RFC 9112, section 2.2).
   */
  private rejectMalformed({ code = '' }: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.connections.of(socket);
    if (connection === undefined || code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    const [errorCode, message] = PARSER_ERRORS[code] ?? MALFORMED;
    const { arriving } = connection;
    if (arriving === undefined) {
      this.refuse(socket, randomUUID(), errorCode, message);
    } else if (!arriving.isReplied) {
      arriving.req.failBody(new ApiError(errorCode, message));
    } else if (arriving.writableFinished) {
      connection.end();
    } else {
      arriving.once('finish', () => connection.end());
    }
  }

  /** Refuses what never became a request that could be handled, and ends its connection. */
  private refuse(socket: Socket, id: string, code: ErrorCode, message: string): void {
    const connection = this.connections.of(socket);
    connection?.refuse(id, code, message, (status) =>
      this.log.info({ request: id, status, client: socket.remoteAddress }, 'request'),
    );
  }

  /**
   * A path that other methods know is 405, or the response to OPTIONS (RFC 9110, sections 9.3.7 and 15.5.6); any other path
   * is 404. Nest calls this once all routes are registered.
   */
  override setNotFoundHandler(): void {
    const methods = new Map<string, string[]>();
    for (const { path, methods: some = [] } of (
      this.instance.router as unknown as Router
    ).listRoutes()) {
      methods.set(`${path}`, [...(methods.get(`${path}`) ?? []), ...some]);
    }
    for (const [path, known] of methods) {
      const allow = allowOf(known);
      this.instance.all(
        path,
        handler(({ method }, response, next) => {
          addHeaders(response, { Allow: allow });
          if (method === 'OPTIONS') {
            this.reply(response, undefined, 204);
          } else {
            const message = `${method} is not allowed here, ${allow} are.`;
            next(new ApiError('method_not_allowed', message));
          }
        }),
      );
    }
    this.instance.use(
      handler((_request, response, next) => {
        if (response.isPreflight) {
          // The page may read the 404 that its request then gets.
          this.reply(response, undefined, 204);
        } else {
          next(new ApiError('route_not_found', 'No such path.'));
        }
      }),
    );
  }

  /** Responds with an Error, and with the `Retry-After` of its code. */
  replyError(response: Response, code: ErrorCode, message: string): void {
    if (response.isAdmitted && code === 'unavailable') {
      this.unavailable = message;
    }
    const body = errorResponse(response, code, message);
    this.reply(response, body, body.status);
  }

  /**
   * Sends a response and logs it. A second one to the same request is dropped: the first took too long.
   *
   * @param body a {@link Representation}, or anything that JSON.stringify takes; `undefined` sends none.
   */
  override reply(response: Response, body: unknown, status: number = response.statusCode): void {
    if (response.isReplied) {
      return;
    }
    response.isReplied = true;
    if (response.isAdmitted) {
      this.queue.leave();
      if (status < 300) {
        this.unavailable = undefined;
      }
    }
    if (isComingInChunks(response.req)) {
      // The rest of it may have come, and is parsed when this returns.
      setImmediate(() => this.prepare(response, body, status));
    } else {
      this.prepare(response, body, status);
    }
  }

  private prepare(response: Response, body: unknown, status: number): void {
    const connection = this.connections.of(response.req.socket);
    if (connection !== undefined && this.isLast(response, body, connection)) {
      connection.endAfter(response);
    }
    const data = writeHead(response, body, status);
    if (this.toSend.push({ response, data, status, connection }) === 1) {
      process.nextTick(() => this.sendAll());
    }
  }

  /**
   * Whether a connection ends with this response: because the service is stopping and no other request came; because the
   * request's body is malformed, or still coming in chunks, which cost more to skip than a new connection does; or because
   * the response has no length, which before HTTP/1.1 nothing else tells.
   */
  private isLast(response: Response, body: unknown, connection: Connection): boolean {
    const { req: request } = response;
    return (
      (this.stage === 'closing' && connection.isLatest(response)) ||
      request.bodyError !== undefined ||
      isComingInChunks(request) ||
      (request.httpVersion === '1.0' && body === undefined)
    );
  }

  /**
   * Responses of one batch become ready together. They are written one right after the other, so that the client, or a
   * proxy, wakes up once for all, and logged while it reads them.
   */
  private sendAll(): void {
    const responses = this.toSend;
    this.toSend = [];
    const now = performance.now();
    for (const outgoing of responses) {
      send(outgoing);
      outgoing.connection?.sent(outgoing.response);
    }
    for (const { response, status } of responses) {
      this.logResponse(response.req, status, now);
    }
    this.queue.letIn();
  }

  private logResponse(request: Request, status: number, now: number): void {
    this.log.info(
      {
        request: request.id,
        method: request.method,
        // The pattern, not the path: whatever a client puts into a URL stays out of the log.
        route: request.route?.path,
        status,
        ms: Math.round((now - request.receivedAt) * 1000) / 1000,
        key: request.caller?.keyId,
        client: clientAddressOf(request),
        trace: traceIdOf(request.headers['traceparent']),
      },
      'request',
    );
  }
}

/** @returns an Error body, for a response that is given the `Retry-After` of its code. */
function errorResponse(response: Response, code: ErrorCode, message: string): ErrorBody {
  const { retryAfter }: { status: number; retryAfter?: number } = ERRORS[code];
  if (retryAfter !== undefined) {
    addHeaders(response, { 'Retry-After': retryAfter });
  }
  return errorBody(code, message);
}

/** Writes the head of a response. @returns the body as it goes out. */
function writeHead(response: Response, body: unknown, status: number): Outgoing['data'] {
  const isMade = body instanceof Representation;
  const data = isMade ? body.data : JSON.stringify(body);
  const headers: Headers = {
    'X-Request-Id': response.req.id,
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
  };
  if (data !== undefined) {
    headers['Content-Type'] = isMade ? body.mediaType : JSON_MEDIA_TYPE;
    headers['Content-Length'] = Buffer.byteLength(data);
  }
  response.writeHead(status, Object.assign(headers, response.addedHeaders));
  return data;
}

/**
 * Ends a response whose head is written. `end(data)` would send an empty last piece along, and so a list of two pieces
 * (writev), which costs Node more than one string.
 */
function send({ response, data, connection }: Outgoing): void {
  if (data !== undefined) {
    response.cork();
    // The bytes of ASCII are the same in both, and Node writes them faster as latin1.
    const isAscii = Buffer.byteLength(data) === data.length;
    response.write(data, isAscii ? 'latin1' : 'utf8');
    response.uncork();
  }
  if (response.shouldKeepAlive || response.req.complete || connection === undefined) {
    response.end();
  } else {
    // Node would close the connection at once, and so reset it while the rest of the request comes.
    response.flushHeaders();
    connection.endAfterRest(response.req);
  }
}

/** A response whose head is written. */
interface Outgoing {
  response: Response;
  data: string | Uint8Array | undefined;
  status: number;
  connection: Connection | undefined;
}

/** What of the environment is the adapter's concern. */
type HttpSettings = Partial<
  Pick<Environment, 'CORS_ORIGINS' | 'RATE_LIMIT_PER_MINUTE' | 'TRUST_PROXY'>
>;

/** What Express's types leave out of its router. */
interface Router {
  listRoutes(): { path: string | RegExp; methods?: string[] }[];
}

/** Express's types do not know that it is given this service's requests and responses. */
const handler = (handle: (request: Request, response: Response, next: NextFunction) => void) =>
  handle as unknown as RequestHandler;

/** Express, without what it would add to requests and responses of its own accord. */
function expressApp(trustProxy: Environment['TRUST_PROXY']): Express {
  return express()
    .disable('x-powered-by')
    .disable('etag')
    .enable('case sensitive routing')
    .enable('strict routing')
    .set('query parser', parseQuery)
    .set('trust proxy', trustProxy ?? false);
}

/** Makes Node construct requests and responses that are Express's already. */
function constructorsFor(app: Express) {
  const IncomingMessage = class extends Request {};
  const ServerResponse = class extends Response {};
  app.request = Object.assign(IncomingMessage.prototype, { app }) as unknown as express.Request;
  app.response = Object.assign(ServerResponse.prototype, { app }) as unknown as express.Response;
  return { IncomingMessage, ServerResponse };
}

/** `X-Forwarded-For` counts as far as trusted proxies wrote it, and where it is an address. */
function clientAddressOf({ ip = '', socket }: Request): string | undefined {
  return isIP(ip) === 0 ? socket.remoteAddress : ip;
}

const ONE_OF_VERSIONS = 'The version of HTTP must be 1.1 or 1.0.';

/** Node's codes: `HPE_…` from its parser, `ERR_HTTP_REQUEST_TIMEOUT` from its time limits. */
const PARSER_ERRORS: Readonly<Record<string, [ErrorCode, string]>> = {
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

function isComingInChunks({ complete, headers }: Request): boolean {
  return !complete && headers['transfer-encoding'] !== undefined;
}

function hasTooManyFields({ rawHeaders }: Request): boolean {
  return rawHeaders.length > 2 * HTTP_LIMITS.headerFields;
}

/**
 * Present, and of the characters that a host and port have (RFC 9112, section 3.2; RFC 3986, section 3.2). Repeated
 * headers, which Node joins with a comma and a space, are none.
 */
function isHost(host: string | undefined): boolean {
  return host !== undefined && /^[\w.~!$&'()*+,;=:%[\]-]*$/.test(host);
}
