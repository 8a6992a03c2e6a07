import { createServer, type IncomingMessage, type Server as HttpServer } from 'node:http';
import { isIP, Server } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type NextFunction, type RequestHandler } from 'express';
import type { Environment } from '../config/environment.js';
import { ApiError } from '../errors/api-error.js';
import { type ErrorCode, ERRORS, errorBody, type ErrorBody } from '../errors/errors.js';
import type { Logger } from '../logging/logger.js';
import { Admission } from './admission.js';
import {
  latestResponse,
  onClientError,
  onConnect,
  ONE_OF_VERSIONS,
  rememberLatest,
} from './client-error.js';
import { Connections } from './connections.js';
import { takeNoMore, takesMore } from './ending.js';
import { Cors } from './cors.js';
import { skipEmptyBody } from './empty-body.js';
import { HTTP_LIMITS } from './limits.js';
import { allowOf } from './methods.js';
import { Newcomers } from './newcomers.js';
import { parseQuery } from './query.js';
import { JSON_MEDIA_TYPE, Representation } from './representation.js';
import { Request } from './request.js';
import { requestId } from './request-id.js';
import { pathAndQuery } from './request-target.js';
import { addHeaders, type Headers, Response } from './response.js';
import { traceIdOf } from './trace.js';

/** Milliseconds of an event loop's turn in which next to nothing can have come. */
const SHORT_TURN = 0.02;

/**
 * The way in and the way out of every request: Node's HTTP server with this service's limits, the answers that need no
 * handler (404, 405, OPTIONS, 503 under overload), and one function that writes every answer of a handler or of these.
 */
export class HttpAdapter extends ExpressAdapter {
  declare protected httpServer: HttpServer;
  declare protected instance: Express;
  private connections!: Connections;
  /** Answers to send in this turn of the event loop. */
  private toSend: Answer[] = [];
  private readonly admission = new Admission((request, response) =>
    this.instance(request as never, response as never),
  );
  private readonly newcomers = new Newcomers(this.admission);
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
        // Node would answer without a body.
        requireHostHeader: false,
        // Node refuses as many as this already.
        maxHeaderSize: HTTP_LIMITS.headerBytes + 1,
        headersTimeout: HTTP_LIMITS.headersTimeout,
        requestTimeout: HTTP_LIMITS.requestTimeout,
        keepAliveTimeout: HTTP_LIMITS.keepAliveTimeout,
        connectionsCheckingInterval: 1000,
      },
      (request, response) => this.accept(request, response),
    ) as unknown as HttpServer;
    this.connections = new Connections(this.httpServer, (response) => this.refuseOverdue(response));
    this.httpServer.on('connection', () => this.newcomers.arrived());
    // Node drops what is beyond: one more than a request may have tells that there were more.
    this.httpServer.maxHeadersCount = HTTP_LIMITS.headerFields + 1;
    // A client may end its side once its request is complete, and still wants the answer.
    Object.assign(this.httpServer, { httpAllowHalfOpen: true });
    this.httpServer.on('clientError', (error, socket) => onClientError(error, socket, this.log));
    this.httpServer.on('connect', (request: IncomingMessage, socket) =>
      onConnect(requestId(request.headers), socket, this.log),
    );
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
   * elsewhere. Then the service stops listening, and ends each connection with its next answer: a proxy that did not ask
   * finds new connections refused, which it can try elsewhere without doubt.
   *
   * @param milliseconds that readiness has to be noticed.
   * @param hurry ends this at once.
   */
  async drain(milliseconds: number, hurry: AbortSignal): Promise<void> {
    this.stage = 'draining';
    try {
      await wait(milliseconds, undefined, { signal: hurry });
      // Connections that wait to be accepted are reset when listening stops, maybe with a request on its way.
      await this.newcomers.onceAllAccepted(SHORT_TURN);
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
   * Stops listening and resolves when every request under way is answered, or has had its time. All other connections
   * are closed, those that become idle meanwhile too, which Node would keep for a next request.
   */
  override async close(): Promise<void> {
    this.stage = 'closing';
    const closed = new Promise<void>((resolve) => this.httpServer.close(() => resolve()));
    this.connections.endIdle();
    const sweep = setInterval(() => this.connections.endIdle(), 50);
    const deadline = setTimeout(() => this.connections.destroyAll(), HTTP_LIMITS.stopTimeout);
    await closed;
    clearInterval(sweep);
    clearTimeout(deadline);
    this.connections.stopWatching();
  }

  private accept(request: Request, response: Response): void {
    if (!takesMore(request.socket)) {
      return;
    }
    request.receivedAt = performance.now();
    if (!hasTooManyFields(request)) {
      skipEmptyBody(request);
    }
    rememberLatest(response);
    // Node gives a response its socket when those before it on the connection are done.
    if (response.socket === null) {
      const { pipelined, pipelinedInCrowd } = HTTP_LIMITS;
      const most = this.admission.isCrowded ? pipelinedInCrowd : pipelined;
      this.connections.startInTurn(response, most, () => this.handle(request, response));
    } else {
      this.handle(request, response);
    }
  }

  private handle(request: Request, response: Response): void {
    this.admission.arrived();
    const { httpVersion } = request;
    const isTooLarge = hasTooManyFields(request);
    if (
      isTooLarge ||
      request.headers.upgrade !== undefined ||
      this.stage === 'closing' ||
      (httpVersion !== '1.1' && request.headers['transfer-encoding'] !== undefined)
    ) {
      // Node drops what else came in the packet of a request that asks for another protocol. Before HTTP/1.1 nobody knew
      // chunks, so where such a body ends is in doubt (RFC 9112, section 6.1).
      endWith(response);
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
      return;
    }
    if (this.admission.isFull) {
      this.replyError(response, 'unavailable', 'The service is overloaded; try again.');
      this.connections.rest(request.socket);
      return;
    }
    this.admission.enter(response);
  }

  /**
   * A path that other methods know is 405, or the answer to OPTIONS (RFC 9110, sections 9.3.7 and 15.5.6); any other path
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

  /** The handler's own answer, when it comes, is only logged. */
  private refuseOverdue(response: Response): void {
    const body = errorAnswer(response, 'unavailable', 'The answer takes too long; try again.');
    response.isAnswered = true;
    response.req.refusedWith = body.status;
    send(response, writeHead(response, body, body.status));
  }

  /** Answers with an Error, and with the `Retry-After` of its code. */
  replyError(response: Response, code: ErrorCode, message: string): void {
    const body = errorAnswer(response, code, message);
    this.reply(response, body, body.status);
  }

  /**
   * Sends an answer and logs it. Every answer leaves through here that is not `client-error.ts`'s, nor that of
   * {@link refuseOverdue}.
   *
   * @param body a {@link Representation}, or anything that JSON.stringify takes; `undefined` sends none.
   */
  override reply(response: Response, body: unknown, status: number = response.statusCode): void {
    const request = response.req;
    this.admission.answered();
    if (response.headersSent) {
      this.logAnswer(request, status, performance.now());
      this.admission.letIn();
      return;
    }
    response.isAnswered = true;
    if (isComingInChunks(request)) {
      // The rest of it may have come, and is parsed when this returns.
      setImmediate(() => this.prepare(response, body, status));
    } else {
      this.prepare(response, body, status);
    }
  }

  private prepare(response: Response, body: unknown, status: number): void {
    if (this.isLast(response, body)) {
      endWith(response);
    }
    const data = writeHead(response, body, status);
    if (this.toSend.push({ response, data, status }) === 1) {
      process.nextTick(() => this.sendAll());
    }
  }

  /**
   * Whether a connection ends with this answer: because the service is stopping and nothing else is under way on it;
   * because the request's body is still coming in chunks, which cost more to skip than a new connection does; because
   * the answer has no length, which before HTTP/1.1 nothing else tells; or because someone without a key sends requests
   * without end.
   */
  private isLast(response: Response, body: unknown): boolean {
    const { req: request } = response;
    return (
      (this.stage === 'closing' && latestResponse(request.socket) === response) ||
      isComingInChunks(request) ||
      (request.httpVersion === '1.0' && body === undefined) ||
      this.connections.isLastOfFlood(response)
    );
  }

  /**
   * Answers of one batch become ready together. They are written one right after the other, so that the client, or a
   * proxy, wakes up once for all, and logged while it reads them.
   */
  private sendAll(): void {
    const answers = this.toSend;
    this.toSend = [];
    const now = performance.now();
    for (const { response, data } of answers) {
      send(response, data);
    }
    for (const { response, status } of answers) {
      this.logAnswer(response.req, status, now);
    }
    this.admission.letIn();
  }

  private logAnswer(request: Request, status: number, now: number): void {
    this.log.info(
      {
        request: request.id,
        method: request.method,
        // The pattern, not the path: whatever a client puts into a URL stays out of the log.
        route: request.route?.path,
        status: request.refusedWith ?? status,
        ms: Math.round((now - request.receivedAt) * 1000) / 1000,
        key: request.caller?.keyId,
        client: clientAddressOf(request),
        trace: traceIdOf(request.headers['traceparent']),
      },
      'request',
    );
  }
}

/** @returns an Error body, for an answer that is given the `Retry-After` of its code. */
function errorAnswer(response: Response, code: ErrorCode, message: string): ErrorBody {
  const { retryAfter }: { status: number; retryAfter?: number } = ERRORS[code];
  if (retryAfter !== undefined) {
    addHeaders(response, { 'Retry-After': retryAfter });
  }
  return errorBody(code, message);
}

/** Writes the head of an answer. @returns the body as it goes out. */
function writeHead(response: Response, body: unknown, status: number): Answer['data'] {
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
 * Ends an answer whose head is written. `end(data)` would send an empty last piece along, and so a list of two pieces
 * (writev), which costs Node more than one string.
 */
function send(response: Response, data: Answer['data']): void {
  if (data !== undefined) {
    response.cork();
    // The bytes of ASCII are the same in both, and Node writes them faster as latin1.
    const isAscii = Buffer.byteLength(data) === data.length;
    response.write(data, isAscii ? 'latin1' : 'utf8');
    response.uncork();
  }
  response.end();
}

/** An answer whose headers are written. */
interface Answer {
  response: Response;
  data: string | Uint8Array | undefined;
  status: number;
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

/** Has a connection end with this answer; what follows on it is not begun (RFC 9112, section 9.6). */
function endWith(response: Response): void {
  response.shouldKeepAlive = false;
  takeNoMore(response.req.socket);
}

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
