import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import { ApiError } from '../errors/api-error.js';
import type { Logger } from '../logging/logger.js';
import { type Connection, hasBody } from './connection.js';
import { Connections, type Readers } from './connections.js';
import { classesFor, JsonText, type Request, type Response } from './express-classes.js';
import { lastWords, type Rejection } from './last-words.js';
import type { HttpLimits } from './limits.js';
import { ListenerErrors } from './listener-errors.js';
import { addressOf, networkOf, withoutPorts } from './network.js';
import { parseQuery, pathAndQuery } from './request-target.js';
import type { Scheduler } from './body.guard.js';

/** What decides when a connection is read, and a request that has arrived is handled. */
export interface Arrivals extends Readers, Scheduler {
  /** What {@link arrive} calls for a request when its turn has come. */
  handle: (response: Response) => void;
  arrive(response: Response): void;
  /** A connection was accepted. */
  accepted(): void;
}

/** Nest's ExpressAdapter, on a server of Node with this service's limits. */
export class HttpAdapter extends ExpressAdapter {
  declare protected httpServer: Server;
  declare protected instance: Express;
  private readonly classes;
  private readonly connections: Connections;
  readonly errors: ListenerErrors;
  /** Set by createApp. @returns the headers of the response to input that is not handled. */
  describe: (rejection: Rejection) => Record<string, string> = () => ({});

  constructor(
    private readonly limits: HttpLimits,
    private readonly arrivals: Arrivals,
    logger?: Logger,
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
    this.errors = new ListenerErrors(logger);
    const isProxy = app.get('trust proxy fn') as (address: string, hop: number) => boolean;
    this.connections = new Connections(limits, this.errors, arrivals, (one) => isProxy(one, 0));
    this.classes = classesFor(app, limits, (bytes) => this.connections.held.note(bytes));
    arrivals.handle = (response) =>
      this.errors.run('request', response.req.socket, () => {
        const { req } = response;
        // Before Express, whose router cannot parse some targets. In its turn, because it may take milliseconds.
        req.url = pathAndQuery(req.url);
        this.instance(req, response);
      });
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
    // For Node, a connection is idle when its handlers have ended: `close` would cut off responses that clients still read.
    this.httpServer.closeIdleConnections = () => {};
    // A client may close its sending side after a request, and still wait for the response (RFC 9112, section 9.6).
    Object.assign(this.httpServer, { httpAllowHalfOpen: true });
    // Node drops the fields beyond this count. It is one more than the limit, so that too many can be detected.
    this.httpServer.maxHeadersCount = limits.headerFields + 1;
    const { errors, httpServer, connections } = this;
    httpServer.once('close', () => connections.stopWatching());
    const on = (
      event: string,
      socketOf: (...args: any[]) => Socket,
      act: (...args: any[]) => void,
    ) =>
      httpServer.on(event, (...args) => errors.run(event, socketOf(...args), () => act(...args)));
    const ofRequest = ({ socket }: Request) => socket;
    const second = (_first: unknown, socket: Socket) => socket;
    on('connection', (socket) => socket, (socket) => this.accept(socket)); // prettier-ignore
    // As the others, for any arguments, but faster.
    httpServer.on('request', (request, response) =>
      errors.run('request', request.socket, () =>
        this.take(request as Request, response as Response),
      ),
    );
    // BodyGuard sends 100 (Continue), or Node ends the connection. Other expectations may be ignored.
    on('checkContinue', ofRequest, (request, response) => this.take(request, response));
    on('checkExpectation', ofRequest, (request, response) => this.take(request, response));
    on('clientError', second, (error, socket) => this.rejectInput(error, socket));
    on('connect', second, (request, socket) => this.rejectConnect(request, socket));
    // Without a listener, as of a module's WebSockets, Node ignores Upgrade. This one comes before the module's.
    let isFirst = true;
    httpServer.on('newListener', (event) => {
      if (event === 'upgrade' && isFirst) {
        isFirst = false;
        // Its second argument is no socket if the request has a body, from Node 26 on.
        on(event, ofRequest, ({ socket }: Request) => connections.upgrade(socket));
      }
    });
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

  /** 404, or for a path with routes 405 or the response to OPTIONS (RFC 9110, sections 9.3.7 and 15.5.6). Nest calls it last. */
  override setNotFoundHandler(): void {
    const { router } = this.instance as unknown as {
      router: { listRoutes(): { path: string; methods?: string[] }[] };
    };
    const methodsOf = new Map<string, string[]>();
    for (const { path, methods = [] } of router.listRoutes()) {
      methodsOf.set(path, [...(methodsOf.get(path) ?? ['OPTIONS']), ...methods]);
    }
    // Of all paths that match, such as /pets/batch and /pets/:petId.
    const allowed = (response: express.Response): string[] => response.locals['allowed'] ?? [];
    for (const [path, methods] of methodsOf) {
      this.instance.all(path, (_request, response, next) => {
        response.locals['allowed'] = [...allowed(response), ...methods];
        next();
      });
    }
    this.instance.use(({ method, url }, response) => {
      const allow = [...new Set(allowed(response))].toSorted().join(', ');
      if (allow !== '') {
        response.setHeader('Allow', allow);
      } else if (method !== 'OPTIONS' || url !== '*') {
        throw new ApiError('route_not_found', 'No such path.');
      }
      if (method !== 'OPTIONS') {
        const message = `${method} is not allowed. Allowed methods: ${allow}.`;
        throw new ApiError('method_not_allowed', message);
      }
      response.status(204).end();
    });
  }

  override close(): Promise<void> {
    return this.connections.stop(super.close());
  }

  private accept(socket: Socket): void {
    this.arrivals.accepted();
    this.connections.accept(socket);
  }

  private take(request: Request, response: Response): void {
    const connection = this.connections.get(request.socket);
    if (connection?.state !== 'open') {
      this.connections.noteExcess(request.socket);
      discard(request);
      return;
    }
    const { headers } = request;
    headers['x-forwarded-for'] &&= withoutPorts(String(headers['x-forwarded-for']));
    request.headBytes = headBytesOf(request);
    const error =
      connection.responses.length < this.limits.requestsPerConnection
        ? malformedHead(request, this.limits.headerFields)
        : new ApiError('unavailable', TOO_MANY, { because: 'over_share' });
    if (error !== undefined) {
      this.endWith({ error, socket: request.socket, request }, connection);
      request.resume();
      return;
    }
    if (this.connections.noteRequest(response, connection)) {
      const { network } = connection;
      const isForwarded = network === '' && headers['x-forwarded-for'];
      const address = isForwarded ? addressOf(request.ip ?? '') : undefined;
      request.network = address === undefined ? network : networkOf(address);
      this.arrivals.arrive(response);
    }
  }

  /**
   * Responds to input that Node's parser or time limits reject, and ends the connection (RFC 9112, section 2.2). BodyGuard
   * throws the error of a body, after earlier checks, such as that of the API key.
   */
  private rejectInput({ code }: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.connections.get(socket);
    if (connection?.state === 'ended' && code !== 'ECONNRESET') {
      // What comes after the end is discarded. Node's parser reports its error again.
      return;
    }
    const isUnused =
      code === 'ERR_HTTP_REQUEST_TIMEOUT' && !connection?.arriving && !hasBegunRequest(socket);
    const mayRespond = code !== 'ECONNRESET' && socket.writable && !isUnused;
    if (connection === undefined || !mayRespond) {
      socket.destroy();
      return;
    }
    const known = NODE_ERRORS[code ?? ''];
    const error = known === undefined ? notHttp() : new ApiError(...known);
    const { arriving } = connection;
    if (arriving === undefined) {
      this.endWith({ error, socket }, connection);
    } else {
      arriving.bodyError ??= error;
      arriving.onBodyError?.(error);
      connection.stop();
      connection.end();
    }
  }

  private rejectConnect(request: Request, socket: Socket): void {
    // Node has removed its own listener for errors. An error without a listener would end the process.
    socket.once('error', () => socket.destroy());
    const connection = this.connections.get(socket);
    if (connection === undefined) {
      socket.destroy();
      return;
    }
    // Nor do its listeners tell the responses before it that they may go on, or close it in time.
    socket.on('drain', () => connection.responses[0]?.emit('drain'));
    socket.once('timeout', () => socket.destroy());
    const error = new ApiError('route_not_found', 'No such path.');
    this.endWith({ error, socket, request }, connection);
  }

  private endWith(input: Omit<Rejection, 'receivedAt'>, connection: Connection): void {
    const rejection = { ...input, receivedAt: performance.now() };
    connection.end(() => lastWords(rejection, this.describe(rejection)));
  }
}

const NO_HEAD = { rawHeaders: [], headers: {}, url: '' };

/** Node keeps the request until its connection ends. */
function discard(request: Request): void {
  if (hasBody(request)) {
    request.resume();
  }
  Object.assign(request, NO_HEAD);
}

const TOO_MANY =
  'The connection has too many requests without a response; wait for responses, or use more connections.';

const notHttp = () =>
  new ApiError(
    'invalid_request',
    'The request is not well-formed HTTP 1.1 or 1.0. Check its method, version and Host; each line must end with CR LF.',
  );

/** Whether a part of a request has come, and not only empty lines (RFC 9112, section 2.2). Node's parser knows. */
const hasBegunRequest = ({ parser }: Socket & { parser?: { finish(): unknown } }) =>
  parser?.finish() !== undefined;

const NODE_ERRORS: Readonly<Record<string, ConstructorParameters<typeof ApiError>>> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The request line and headers are too large.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['payload_too_large', 'The chunk extensions are too large.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time.'],
};

/** Without what separates them: the version, spaces and line ends. */
function headBytesOf({ rawHeaders, method, url }: Request): number {
  let bytes = method.length + url.length + ' HTTP/1.1'.length + 4;
  for (const text of rawHeaders) {
    bytes += text.length + 2;
  }
  return bytes;
}

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
