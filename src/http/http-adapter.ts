import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type NextFunction } from 'express';
import { ApiError } from '../errors/api-error.js';
import { isAllowedPreflight } from './cors.js';
import { classesFor, type Request, type Response } from './express-classes.js';
import { JSON_MEDIA_TYPE, JsonText } from './json-text.js';
import type { HttpLimits } from './limits.js';
import { type InputError, malformedHead, rejectedByNode } from './malformed.js';
import { parseQuery, pathAndQuery } from './request-target.js';

interface Connection {
  /** The responses that have not ended. */
  open: Set<Response>;
  /** The response to the latest request. */
  latest?: Response;
  /** Whether its input is not HTTP. Later input is ignored. */
  isRefused: boolean;
}

/** Nest's ExpressAdapter, on a server of Node with this service's limits. */
export class HttpAdapter extends ExpressAdapter {
  declare protected httpServer: Server;
  declare protected instance: Express;
  private readonly classes;
  private readonly connections = new Map<Socket, Connection>();

  /** The methods of all routes, in alphabetical order, and OPTIONS, which every path supports. */
  methods: ReadonlySet<string> = new Set();

  /** Whether the service is stopping: readiness is then 503, so that proxies send further requests elsewhere. */
  isStopping = false;

  /** @param trustProxy Express's setting `trust proxy`. */
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
    this.httpServer.maxConnections = limits.connections;
    this.httpServer.timeout = limits.socketTimeout;
    // Node drops the fields beyond this count. It is one more than the limit, so that too many can be detected.
    this.httpServer.maxHeadersCount = limits.headerFields + 1;
    this.httpServer
      .on('connection', (socket: Socket) => this.accept(socket))
      .on('request', (request, response) => this.handle(request as Request, response as Response))
      .on('clientError', (error, socket) => this.rejectInput(error, socket as Socket))
      .on('connect', (request, socket) => {
        // Node has removed its own listener for errors. An error without a listener would end the process.
        socket.once('error', () => socket.destroy());
        this.refuse(request as Request, new ApiError('route_not_found', 'No such path.'));
      })
      // BodyGuard sends 100 (Continue) when it reads the body. If it does not, the client need not send the body, so
      // this request is the connection's last one (RFC 9110, section 10.1.1).
      .on('checkContinue', (request, response) => {
        response.setHeader('Connection', 'close');
        this.httpServer.emit('request', request, response);
      })
      // Other expectations may be ignored.
      .on('checkExpectation', (request, response) =>
        this.httpServer.emit('request', request, response),
      );
  }

  override listen(port: any, ...args: any[]): Server {
    const [callback, host] = args.toReversed();
    return this.httpServer.listen(port, host, this.limits.backlog, callback);
  }

  /**
   * Sends prepared JSON as it is. Everything else is Nest's. Head and body go to the socket as one string: with
   * `end(text)`, Node would use `writev`, which takes a sixth of a list's time.
   */
  override reply(response: Response, body: unknown, statusCode?: number): unknown {
    if (!(body instanceof JsonText)) {
      return super.reply(response, body, statusCode);
    }
    const bytes = Buffer.byteLength(body.text);
    response.statusCode = statusCode ?? response.statusCode;
    response.setHeader('Content-Type', JSON_MEDIA_TYPE);
    response.setHeader('Content-Length', bytes);
    response.cork();
    // ASCII has the same bytes in both encodings, and Node writes latin1 faster.
    response.write(body.text, bytes === body.text.length ? 'latin1' : 'utf8');
    response.uncork();
    return response.end();
  }

  /** A middleware that rejects input that is not HTTP, and a malformed head. */
  readonly checkHead = (request: Request, response: Response, next: NextFunction): void => {
    const error = request.inputError ?? malformedHead(request, this.limits);
    if (!this.httpServer.listening || error?.code === 'headers_too_large') {
      response.setHeader('Connection', 'close');
    }
    next(error);
  };

  /**
   * Responds to a request that no route handles. If its path has routes for other methods, the response is 405, or the
   * response to OPTIONS (RFC 9110, sections 9.3.7 and 15.5.6). Otherwise it is 404. Nest calls this after all routes
   * are registered.
   */
  override setNotFoundHandler(): void {
    const { router } = this.instance as unknown as { router: Router };
    const methodsOf = new Map<string | RegExp, string[]>();
    for (const { path, methods = [] } of router.listRoutes()) {
      methodsOf.set(path, [...(methodsOf.get(path) ?? ['OPTIONS']), ...methods]);
    }
    this.methods = new Set([...methodsOf.values()].flat().toSorted());
    for (const [path, methods] of methodsOf) {
      const allow = [...new Set(methods)].toSorted().join(', ');
      this.instance.all(path, ({ method }, response, next) => {
        response.setHeader('Allow', allow);
        if (method === 'OPTIONS') {
          response.status(204).end();
        } else {
          const message = `${method} is not allowed. Allowed methods: ${allow}.`;
          next(new ApiError('method_not_allowed', message));
        }
      });
    }
    this.instance.use((_request, response, next) => {
      if (isAllowedPreflight(response)) {
        response.status(204).end();
      } else {
        next(new ApiError('route_not_found', 'No such path.'));
      }
    });
  }

  /**
   * Stops listening. Resolves when all connections are closed: idle ones at once, others with their response, and those
   * that remain after {@link HttpLimits.stopTimeout}.
   */
  override async close(): Promise<void> {
    this.isStopping = true;
    const closed = super.close();
    this.connections.forEach(({ open }) => open.forEach(endsConnection));
    const destroyAfter = (milliseconds: number, isOver: (connection: Connection) => boolean) =>
      setTimeout(() => {
        this.connections.forEach((connection, socket) => isOver(connection) && socket.destroy());
      }, milliseconds);
    const timers = [
      // A request may be on its way.
      destroyAfter(50, ({ open }) => open.size === 0),
      destroyAfter(this.limits.stopTimeout, () => true),
    ];
    await closed;
    timers.forEach((timer) => clearTimeout(timer));
  }

  private accept(socket: Socket): void {
    const open = new Set<Response>();
    this.connections.set(socket, { open, isRefused: false });
    // Node caches the address. It cannot be read any more when the client has disconnected.
    void socket.remoteAddress;
    // Node emits no `close` for a response that waits for others of its connection. The log and the admission need it.
    socket.once('close', () => {
      this.connections.delete(socket);
      setImmediate(() => open.forEach((waiting) => waiting.emit('close')));
    });
  }

  private handle(request: Request, response: Response): void {
    const connection = this.connections.get(request.socket)!;
    connection.latest = response;
    connection.open.add(response);
    response.once('close', () => {
      connection.open.delete(response);
      // Its header may have said that the connection stays open.
      if (!this.httpServer.listening && connection.open.size === 0) {
        request.socket.destroySoon();
      }
    });
    // Before Express, whose router cannot parse some targets.
    request.url = pathAndQuery(request.url);
    this.instance(request, response);
  }

  /**
   * Responds to input that Node's HTTP parser or its time limits reject. If it is the body of a request, the error is
   * thrown when the body is read, so that earlier checks, such as that of the API key, decide the response. In any case
   * the connection ends, because the start of the next request is unknown (RFC 9112, section 2.2).
   */
  private rejectInput(cause: InputError, socket: Socket): void {
    const connection = this.connections.get(socket);
    if (cause.code === 'ECONNRESET' || !socket.writable || connection === undefined) {
      socket.destroy();
    } else if (!connection.isRefused) {
      connection.isRefused = true;
      const error = rejectedByNode(cause);
      const { latest } = connection;
      if (latest === undefined || latest.req.complete) {
        const request = new this.classes.IncomingMessage(socket);
        this.refuse(Object.assign(request, { method: undefined, url: '/' }), error);
      } else {
        endsConnection(latest);
        latest.req.inputError = error;
        latest.req.onInputError?.(error);
        this.afterLatest(socket, () => this.endConnection(socket));
      }
    }
  }

  /** Responds to CONNECT, or to input that is not a request, and ends the connection. */
  private refuse(request: Request, error: ApiError): void {
    const { socket } = request;
    request.inputError = error;
    this.afterLatest(socket, () => {
      const response = new this.classes.ServerResponse(request);
      response.assignSocket(socket);
      endsConnection(response);
      response.once('finish', () => {
        response.detachSocket(socket);
        response.emit('close');
        this.endConnection(socket);
      });
      this.httpServer.emit('request', request, response);
    });
  }

  /** Calls `act` when the responses to the requests of the connection have ended, unless it is closed then. */
  private afterLatest(socket: Socket, act: () => void): void {
    const { latest, open } = this.connections.get(socket)!;
    if (latest !== undefined && open.has(latest)) {
      latest.once('close', () => {
        if (!socket.destroyed) {
          act();
        }
      });
    } else {
      act();
    }
  }

  /**
   * Ends a connection. What the client still sends is discarded for a while: an immediate close would reset the
   * connection, and the client might miss the response (RFC 9112, section 9.6).
   */
  private endConnection(socket: Socket): void {
    socket.end();
    socket.resume();
    setTimeout(() => socket.destroy(), this.limits.lingerTimeout).unref();
  }
}

/** Lets the client know that this response is its connection's last one. */
function endsConnection(response: Response): void {
  if (!response.headersSent) {
    response.setHeader('Connection', 'close');
  }
}

/** Members of Express's router that its types lack. */
interface Router {
  listRoutes(): { path: string; methods?: string[] }[];
}
