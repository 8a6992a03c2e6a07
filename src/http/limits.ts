/** What a client may ask of the HTTP server, whatever the request is for. */
export const HTTP_LIMITS = {
  /**
   * Connections that the operating system holds until they are accepted. Node's 511 is less than a proxy may open at
   * once; a connection beyond it waits for a second and more.
   */
  backlog: 4096,
  /** Open connections; one more is closed at once. */
  connections: 10_000,
  /** Requests that are in their handlers or wait for them; one more is 503, unless it is for `/health`. */
  requests: 6_000,
  /** Requests that are in their handlers at a time; more wait. */
  handled: 128,
  /** Milliseconds that a request waits for its handler, or up to 250 more, however many are in theirs then. */
  queueTime: 100,
  /** Milliseconds for which the connection of a request that was rejected so is not read. */
  rejectedPause: 250,
  /** Requests of all connections that wait for others of their connection; for one more, a connection is closed. */
  waiting: 20_000,
  /** Bytes of a request body; more is 413. */
  bodyBytes: 16 * 1024,
  /** Chunks in which a body may come; more are 413. */
  bodyChunks: 1_000,
  /** Levels of arrays and objects in a JSON body; more is 400. */
  jsonDepth: 32,
  /** Bytes of a request's target, and of its headers' names and values, together; more is 431. */
  headerBytes: 16 * 1024,
  /** Header fields of a request; more are 431. */
  headerFields: 250,
  /** Milliseconds from a request's first byte to the end of its headers; then 408. */
  headersTimeout: 10_000,
  /** Milliseconds from a request's first byte to the end of its body; then 408. */
  requestTimeout: 15_000,
  /** Milliseconds from a request's end, and from the response before it on its connection, to its response; then 503. */
  responseTimeout: 4_250,
  /**
   * Milliseconds after which Node looks whether a client has taken anything of the response that is sent to it. The
   * connection of one that has not is closed: after twice as long at most, if it took something in the beginning.
   */
  takeTimeout: 14_000,
  /** Milliseconds that a connection may stay open between two requests. */
  keepAliveTimeout: 65_000,
  /** Milliseconds for which a connection that ends is still read, so that its last response arrives. */
  lingerTimeout: 1_000,
  /** Milliseconds for which connections stay open after listening has stopped, for a request that is on its way. */
  lastRequestTime: 1_000,
  /** Milliseconds that a service that stops waits for a moment in which no connection comes. */
  quietTime: 200,
  /** Milliseconds that requests under way have when the service stops. */
  stopTimeout: 10_000,
} as const;
