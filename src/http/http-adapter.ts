import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type NextFunction } from 'express';
import { ApiError } from '../errors/api-error.js';
import { Connections } from './connection.js';
import { classesFor, JsonText, type Request, type Response } from './express-classes.js';
import type { HttpLimits } from './limits.js';
import { RequestQueue } from './request-queue.js';
import { parseQuery, pathAndQuery } from './request-target.js';

/** Nest's ExpressAdapter, on a server of Node with this service's limits. */
export class HttpAdapter extends ExpressAdapter {
  declare protected httpServer: Server;
  declare protected instance: Express;
  private readonly classes;
  private readonly connections: Connections;
  private readonly queue: RequestQueue;

  /** Readiness is then 503, so that proxies send further requests elsewhere. */
  isStopping = false;

  constructor(
    private readonly limits: HttpLimits,
    trustProxy: number | string | false = false,
  ) {
    const app = express()
      .disable('x-powered-by')
      .disable('etag')
      .enable('case sensitive routing')
      .enable('strict routing')
      .set('query parser', parseQuery)
      .set('trust proxy', trustProxy);
    super(app);
    this.classes = classesFor(app);
    this.connections = new Connections(limits);
    this.queue = new RequestQueue(limits, (response) => this.instance(response.req, response));
  }

  override initHttpServer(): void {
    const { limits } = this;
    this.httpServer = createServer({
      ...(this.classes as object),
      // Two Authorization headers become one malformed header. Without this, Node would use the first one.
      joinDuplicateHeaders: true,
      // Without this, Node responds with a 400 without a body.
      requireHostHeader: false,
      // Node rejects headers of exactly this size too.
      maxHeaderSize: limits.headerBytes + 1,
      headersTimeout: limits.headersTimeout,
      requestTimeout: limits.requestTimeout,
      keepAliveTimeout: limits.keepAliveTimeout,
      connectionsCheckingInterval: 1000,
    });
    this.httpServer.timeout = limits.socketTimeout;
    // A client may close its sending side after a request, and still wait for the response (RFC 9112, section 9.6).
    Object.assign(this.httpServer, { httpAllowHalfOpen: true });
    // Node drops the fields beyond this count. It is one more than the limit, so that too many can be detected.
    this.httpServer.maxHeadersCount = limits.headerFields + 1;
    this.httpServer
      .on('connection', (socket: Socket) => this.connections.accept(socket))
      .on('connection', () => (this.queue.hasAccepted = true))
      .on('connection', (socket) => socket.once('close', () => this.queue.noteClosed()))
      .on('request', (request, response) => this.handle(request as Request, response as Response))
      .on('clientError', (error, socket) => this.rejectInput(error, socket as Socket))
      .on('connect', (request, socket) => {
        // Node has removed its own listener for errors. An error without a listener would end the process.
        socket.once('error', () => socket.destroy());
        this.respondLast(request as Request, new ApiError('route_not_found', 'No such path.'));
      })
      // BodyGuard sends 100 (Continue), or Node ends the connection. Other expectations may be ignored.
      .on('checkContinue', (...exchange) => this.httpServer.emit('request', ...exchange))
      .on('checkExpectation', (...exchange) => this.httpServer.emit('request', ...exchange));
  }

  /** Adds the backlog to Nest's arguments. */
  override listen(port: any, ...args: any[]): Server {
    const [callback, host] = args.toReversed();
    return this.httpServer.listen(port, host, this.limits.backlog, callback);
  }

  /**
   * Sends prepared JSON as it is. Corked, head and body reach the socket as one string. `end(text)` would write them as two,
   * with `writev`, which takes a sixth of a list's time.
   */
  override reply(response: Response, body: unknown, statusCode?: number): unknown {
    if (!(body instanceof JsonText)) {
      return super.reply(response, body, statusCode);
    }
    const bytes = Buffer.byteLength(body.text);
    response.statusCode = statusCode ?? response.statusCode;
    response.setHeader('Content-Type', 'application/json; charset=utf-8');
    response.setHeader('Content-Length', bytes);
    response.writeHead(response.statusCode);
    // The responses of one statement leave after each other, and the client wakes up once: 6 % more of them per second.
    process.nextTick(() => {
      response.cork();
      // ASCII has the same bytes in both encodings, and Node writes latin1 faster.
      response.write(body.text, bytes === body.text.length ? 'latin1' : 'utf8');
      response.uncork();
      response.end();
    });
    return undefined;
  }

  /** A middleware that rejects what is not HTTP, and a malformed head. */
  readonly rejectMalformed = (request: Request, response: Response, next: NextFunction): void => {
    const error = request.headError ?? malformedHead(request, this.limits.headerFields);
    // When the service stops, each connection ends with its next response.
    if (!this.httpServer.listening || error?.code === 'headers_too_large') {
      response.setHeader('Connection', 'close');
    }
    next(error);
  };

  /** 404, or for a path with routes 405 or the response to OPTIONS (RFC 9110, sections 9.3.7 and 15.5.6). Nest calls it last. */
  override setNotFoundHandler(): void {
    const { router } = this.instance as unknown as {
      router: { listRoutes(): { path: string; methods?: string[] }[] };
    };
    const methodsOf = new Map<string, string[]>();
    for (const { path, methods = [] } of router.listRoutes()) {
      methodsOf.set(path, [...(methodsOf.get(path) ?? ['OPTIONS']), ...methods]);
    }
    for (const [path, methods] of methodsOf) {
      const allow = [...new Set(methods)].toSorted().join(', ');
      this.instance.all(path, ({ method }, response) => {
        response.setHeader('Allow', allow);
        if (method !== 'OPTIONS') {
          const message = `${method} is not allowed. Allowed methods: ${allow}.`;
          throw new ApiError('method_not_allowed', message);
        }
        response.status(204).end();
      });
    }
    this.instance.use(({ method, url }, response) => {
      if (method !== 'OPTIONS' || url !== '*') {
        throw new ApiError('route_not_found', 'No such path.');
      }
      response.status(204).end();
    });
  }

  override close(): Promise<void> {
    this.isStopping = true;
    return this.connections.stop(super.close());
  }

  private handle(request: Request, response: Response): void {
    const connection = this.connections.add(request, response);
    if (connection !== undefined) {
      if (endsConnection(request)) {
        connection.endAfterLatest();
      }
      // Before Express, whose router cannot parse some targets.
      request.url = pathAndQuery(request.url);
      this.queue.add(response, connection.keyId);
    }
  }

  /**
   * Responds to input that Node's parser or time limits reject, and ends the connection (RFC 9112, section 2.2). BodyGuard
   * throws the error of a body, after earlier checks, such as that of the API key. For other input, a request without a
   * method is made, which {@link rejectMalformed} rejects.
   */
  private rejectInput({ code }: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.connections.bySocket.get(socket);
    const mayRespond = code !== 'ECONNRESET' && socket.writable && socket.bytesRead > 0;
    if (connection === undefined || !mayRespond) {
      socket.destroy();
      return;
    }
    const known = NODE_ERRORS[code ?? ''];
    const error = known === undefined ? notHttp() : new ApiError(...known);
    const { arriving } = connection;
    if (arriving === undefined) {
      const request = new this.classes.IncomingMessage(socket);
      this.respondLast(Object.assign(request, { method: undefined }), error);
    } else {
      arriving.bodyError ??= error;
      arriving.onBodyError?.(error);
      connection.endAfterLatest();
    }
  }

  /** Responds to CONNECT, or to input that is not a request, after the earlier requests, and ends the connection. */
  private respondLast(request: Request, error: ApiError): void {
    const { socket } = request;
    const connection = this.connections.bySocket.get(socket)!;
    request.headError = error;
    // CONNECT has another form of target, which Express cannot parse.
    request.url = '/';
    connection.endAfterLatest(() => {
      const response = new this.classes.ServerResponse(request);
      response.assignSocket(socket);
      response.setHeader('Connection', 'close');
      response.once('close', () => response.noteClosed());
      response.once('finish', () => {
        response.detachSocket(socket);
        response.emit('close');
        connection.end();
      });
      this.instance(request, response);
    });
  }
}

/** Node's parser cannot go on after a request for another protocol; RFC 9112, section 6.1, requires it for HTTP/1.0. */
const endsConnection = ({ headers, httpVersion }: Request) =>
  headers.upgrade !== undefined ||
  (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined);

const notHttp = () =>
  new ApiError(
    'invalid_request',
    'The request is not well-formed HTTP 1.1 or 1.0. Check its method, version and Host; each line must end with CR LF.',
  );

const NODE_ERRORS: Readonly<Record<string, ConstructorParameters<typeof ApiError>>> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The request line and headers are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['payload_too_large', 'The chunk extensions are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time.'],
};

/** The error of a request that Node accepted although its head is malformed; `undefined` if it is not. */
function malformedHead({ rawHeaders, httpVersion, headers }: Request, headerFields: number) {
  if (rawHeaders.length > 2 * headerFields) {
    const message = `A request may have at most ${headerFields} header fields.`;
    return new ApiError('headers_too_large', message);
  }
  // Node joins repeated headers with a comma and a space.
  const { host } = headers;
  const hasHost = httpVersion === '1.1' ? host !== undefined : httpVersion === '1.0';
  return hasHost && HOST.test(host ?? '') ? undefined : notHttp();
}

/** An address in brackets, or a name, which may be empty; then a port (RFC 9112, section 3.2; RFC 3986, section 3.2). */
const HOST =
  /^(?:\[[0-9a-f:.]+\]|\[v[0-9a-f]+\.[\w.~!$&'()*+,;=:-]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})*)(?::[0-9]*)?$/i;
