import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server as HttpServer } from 'node:http';
import { isIP, Server, type Socket } from 'node:net';
import { setImmediate as endOfTurn, setTimeout as wait } from 'node:timers/promises';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type NextFunction, type RequestHandler } from 'express';
import type { Environment } from '../config/environment.js';
import { ApiError } from '../errors/api-error.js';
import { DATABASE_UNAVAILABLE } from '../errors/database-error.js';
import { type ErrorCode, ERRORS, errorBody } from '../errors/errors.js';
import type { Logger } from '../logging/logger.js';
import { AdmissionQueue } from './admission-queue.js';
import type { Connection } from './connection.js';
import { Connections } from './connections.js';
import { Cors } from './cors.js';
import { HTTP_LIMITS } from './limits.js';
import { malformedHead, rejectedByNode } from './malformed.js';
import { allowOf } from './methods.js';
import { parseQuery } from './query.js';
import { Request } from './request.js';
import { requestId } from './request-id.js';
import { pathAndQuery } from './request-target.js';
import { addHeaders, Response, sendBody, writeHead } from './response.js';
import { traceIdOf } from './trace.js';

/**
 * With this option, Node emits no `end` and `close` events for a request without a body. Versions before Node 24 ignore
 * it. The types of Node 20, which this project uses, lack it.
 */
const NODE_24_OPTIONS = { optimizeEmptyRequests: true };

/** The prefix of the paths of liveness and readiness. */
const PROBES = '/health/';

/** Milliseconds. It is unlikely that a connection arrives in a turn of the event loop that is not longer than this. */
const SHORT_TURN = 0.02;

/**
 * Express under Nest, on Node's HTTP server with this service's limits. It rejects malformed requests and requests
 * beyond the limits, and sends every response.
 */
export class HttpAdapter extends ExpressAdapter {
  declare protected httpServer: HttpServer;
  declare protected instance: Express;
  private connections!: Connections;
  private readonly queue = new AdmissionQueue();
  /** Responses to send in this turn of the event loop. */
  private toSend: Outgoing[] = [];
  /** Whether a handler found the database unavailable and no request has succeeded since. */
  private isDatabaseAway = false;
  private stage: 'serving' | 'draining' | 'closing' = 'serving';
  /** Called with the log fields of each response. */
  observe?: (response: LoggedResponse) => void = undefined;

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
        // Two Authorization headers become one malformed header. Without this, Node would use the first one.
        joinDuplicateHeaders: true,
        // Without this, Node responds with a 400 without a body.
        requireHostHeader: false,
        // Node rejects headers of exactly this size too.
        maxHeaderSize: HTTP_LIMITS.headerBytes + 1,
        headersTimeout: HTTP_LIMITS.headersTimeout,
        requestTimeout: HTTP_LIMITS.requestTimeout,
        keepAliveTimeout: HTTP_LIMITS.keepAliveTimeout,
        connectionsCheckingInterval: 1000,
        ...NODE_24_OPTIONS,
      },
      (request, response) => this.accept(request, response),
    ) as unknown as HttpServer;
    this.connections = new Connections(
      this.httpServer,
      (now) => this.queue.letInOverdue(now),
      (response) =>
        this.replyError(response, 'unavailable', 'The response takes too long; try again.'),
    );
    this.httpServer.setTimeout(HTTP_LIMITS.takeTimeout, ((socket: Socket) =>
      this.connections.of(socket)?.timedOut()) as () => void);
    // Node drops the fields beyond this count. It is one more than the limit, so that `handle` can detect too many.
    this.httpServer.maxHeadersCount = HTTP_LIMITS.headerFields + 1;
    // A client may end its side of the connection after its request and still expect the response.
    Object.assign(this.httpServer, { httpAllowHalfOpen: true });
    this.httpServer.on('clientError', (error, socket) =>
      this.rejectMalformed(error, socket as Socket),
    );
    this.httpServer.on('connect', ({ headers }: IncomingMessage, socket) => {
      // Node has removed its own listener for errors. An error without a listener would end the process.
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

  /** How many requests are in their handlers, and how many wait to enter them. */
  get load(): { handled: number; waiting: number } {
    return this.queue.load;
  }

  /** Whether the service is stopping, so that balancers should send it no more requests. */
  get isStopping(): boolean {
    return this.stage !== 'serving';
  }

  /**
   * Prepares for {@link close}. First, all requests are still served, and only readiness says that the service is
   * stopping. Behind a balancer that checks readiness, no request is lost: it sends further requests elsewhere. After
   * that, the service stops listening and ends each connection with its next response. A balancer that does not check
   * readiness gets its new connections refused, and can safely try another instance. Hardly any request is lost behind
   * such a balancer (docs/reliability.md).
   *
   * @param milliseconds how long readiness is 503 before the service stops listening.
   * @param hurry when it is aborted, this stops waiting and resolves.
   */
  async drain(milliseconds: number, hurry: AbortSignal): Promise<void> {
    this.stage = 'draining';
    try {
      await wait(milliseconds, undefined, { signal: hurry });
      await this.onceNoConnectionComes();
      // net.Server's `close`: that of http.Server would close idle connections too.
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
   * Stops listening. Resolves when all connections are closed: each as soon as it is idle, and the others after
   * {@link HTTP_LIMITS.stopTimeout}. Node would keep a connection that becomes idle meanwhile open for a next request.
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
   * Resolves when it is likely that no connection waits to be accepted: after a short turn of the event loop in which
   * no connection arrived, or after {@link HTTP_LIMITS.quietTime}. The operating system resets connections that wait to
   * be accepted when listening stops, and their requests are lost.
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
    const malformed = malformedHead(request);
    if (
      malformed?.[0] === 'headers_too_large' ||
      request.headers.upgrade !== undefined ||
      (request.httpVersion !== '1.1' && request.headers['transfer-encoding'] !== undefined)
    ) {
      // Node drops what comes after a request with `Upgrade` in the same packet. HTTP/1.0 has no chunked coding, so the
      // end of a body with `Transfer-Encoding` is uncertain (RFC 9112, section 6.1).
      this.connections.of(request.socket)?.endAfter(response);
    }
    request.id = requestId(request.headers);
    request.url = pathAndQuery(request.url);
    response.isPreflight = this.cors?.addTo(response);
    if (malformed !== undefined) {
      this.replyError(response, ...malformed);
      return;
    }
    if (request.url.startsWith(PROBES)) {
      this.instance(request as never, response as never);
    } else if (this.queue.isFull) {
      const message = this.isDatabaseAway
        ? DATABASE_UNAVAILABLE
        : 'The service is overloaded; try again.';
      this.replyError(response, 'unavailable', message);
      // Otherwise clients that retry at once would keep the service busy with rejections.
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
   * Responds to requests that Node's HTTP parser or its time limits reject. An error in a body is thrown when the body
   * is read, so that earlier checks, such as that of the API key, decide the response. In any case, the connection ends
   * with the response, because the start of the next request is unknown (RFC 9112, section 2.2).
   */
  private rejectMalformed({ code = '' }: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.connections.of(socket);
    if (connection === undefined || code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    const [errorCode, message] = rejectedByNode(code);
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

  /** Responds with an Error to CONNECT, or to input that could not be parsed as a request. Then ends the connection. */
  private refuse(socket: Socket, id: string, code: ErrorCode, message: string): void {
    const connection = this.connections.of(socket);
    connection?.refuse(id, code, message, (status) =>
      this.record({ request: id, status, code, client: socket.remoteAddress }),
    );
  }

  /**
   * Responds to a request that no route handles. If its path has routes for other methods, the response is 405, or the
   * response to OPTIONS (RFC 9110, sections 9.3.7 and 15.5.6). Otherwise it is 404. Nest calls this after all routes
   * are registered.
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
            const message = `${method} is not allowed. Allowed methods: ${allow}.`;
            next(new ApiError('method_not_allowed', message));
          }
        }),
      );
    }
    this.instance.use(
      handler((_request, response, next) => {
        if (response.isPreflight) {
          // The preflight succeeds although there is no such path. Otherwise the browser would not send the request,
          // and the web page could not read that the response is 404.
          this.reply(response, undefined, 204);
        } else {
          next(new ApiError('route_not_found', 'No such path.'));
        }
      }),
    );
  }

  /** Responds with an Error, and with the `Retry-After` of its code. */
  replyError(response: Response, code: ErrorCode, message: string): void {
    if (response.isReplied) {
      return;
    }
    response.errorCode = code;
    if (response.isAdmitted && message === DATABASE_UNAVAILABLE) {
      this.isDatabaseAway = true;
    }
    const { status, retryAfter }: { status: number; retryAfter?: number } = ERRORS[code];
    if (retryAfter !== undefined) {
      addHeaders(response, { 'Retry-After': retryAfter });
    }
    this.reply(response, errorBody(code, message), status);
  }

  /**
   * Sends a response and logs it. Does nothing if the request has a response already: a handler may finish after the
   * response that says that it took too long.
   *
   * @param body a {@link Representation}, or any value for JSON.stringify. `undefined` sends no body.
   */
  override reply(response: Response, body: unknown, status: number = response.statusCode): void {
    if (response.isReplied) {
      return;
    }
    response.isReplied = true;
    if (response.isAdmitted) {
      this.queue.leave();
      if (status < 300) {
        this.isDatabaseAway = false;
      }
    }
    if (isComingInChunks(response.req)) {
      // The rest of the body may have arrived, and Node parses it after this call returns. If the body is complete
      // then, the connection can stay open.
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
   * Whether the connection ends with this response. It does if the service has stopped listening and no later request
   * of the connection has arrived; if the body is malformed; if the body is still arriving in chunks, which cost more
   * to discard than a new connection; or if an HTTP/1.0 response has no body, and so no length.
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
   * Requests that share an SQL statement get their responses in the same turn of the event loop. The responses are
   * written directly after each other, so that a client or proxy wakes up once for all of them. They are logged
   * afterwards, while the client reads.
   */
  private sendAll(): void {
    const responses = this.toSend;
    this.toSend = [];
    const now = performance.now();
    for (const { response, data, connection } of responses) {
      sendBody(response, data, connection);
      connection?.sent(response);
    }
    for (const { response, status } of responses) {
      this.logResponse(response, status, now);
    }
    this.queue.letIn();
  }

  private logResponse({ req: request, errorCode }: Response, status: number, now: number): void {
    this.record({
      request: request.id,
      method: request.method,
      // The route's pattern, not the path, so that no client input from the URL gets into the log.
      route: request.route?.path,
      status,
      code: errorCode,
      ms: Math.round((now - request.receivedAt) * 1000) / 1000,
      key: request.caller?.keyId,
      client: clientAddressOf(request),
      trace: traceIdOf(request.headers['traceparent']),
    });
  }

  /**
   * Logs probes at level `debug`. Balancers and supervisors send them every few seconds, and their lines would hide the
   * others.
   */
  private record(response: LoggedResponse): void {
    const level = response.route?.startsWith(PROBES) ? 'debug' : 'info';
    this.log[level](response, 'request');
    this.observe?.(response);
  }
}

/** A response whose head is written. */
interface Outgoing {
  response: Response;
  data: ReturnType<typeof writeHead>;
  status: number;
  connection: Connection | undefined;
}

/**
 * The fields of a response's line in the log. `method` is missing for CONNECT, and for input that could not be parsed
 * as a request.
 */
export interface LoggedResponse {
  request: string;
  method?: string;
  /** The pattern of its path. */
  route?: string;
  status: number;
  code?: ErrorCode;
  /** Milliseconds from the arrival of the request's headers to the response. */
  ms?: number;
  /** The API key's id. */
  key?: string;
  client?: string;
  trace?: string;
}

/** The variables of the environment that the adapter uses. */
type HttpSettings = Partial<
  Pick<Environment, 'CORS_ORIGINS' | 'RATE_LIMIT_PER_MINUTE' | 'TRUST_PROXY'>
>;

/** Members of Express's router that its types lack. */
interface Router {
  listRoutes(): { path: string | RegExp; methods?: string[] }[];
}

/** Adapts a handler to Express's types, which do not have this service's requests and responses. */
const handler = (handle: (request: Request, response: Response, next: NextFunction) => void) =>
  handle as unknown as RequestHandler;

/** Express, without the headers that it adds by default, with exact paths and this service's query parser. */
function expressApp(trustProxy: Environment['TRUST_PROXY']): Express {
  return express()
    .disable('x-powered-by')
    .disable('etag')
    .enable('case sensitive routing')
    .enable('strict routing')
    .set('query parser', parseQuery)
    .set('trust proxy', trustProxy ?? false);
}

/** @returns the classes of which Node constructs requests and responses. Their prototypes have Express's members. */
function constructorsFor(app: Express) {
  const IncomingMessage = class extends Request {};
  const ServerResponse = class extends Response {};
  app.request = Object.assign(IncomingMessage.prototype, { app }) as unknown as express.Request;
  app.response = Object.assign(ServerResponse.prototype, { app }) as unknown as express.Response;
  return { IncomingMessage, ServerResponse };
}

/**
 * The client's address: from `X-Forwarded-For` if a trusted proxy wrote it and it is an address, otherwise the
 * socket's.
 */
function clientAddressOf({ ip = '', socket }: Request): string | undefined {
  return isIP(ip) === 0 ? socket.remoteAddress : ip;
}

function isComingInChunks({ complete, headers }: Request): boolean {
  return !complete && headers['transfer-encoding'] !== undefined;
}
