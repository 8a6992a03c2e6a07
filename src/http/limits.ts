/** The limits of the HTTP server for every client and request. */
export const HTTP_LIMITS = {
  /**
   * Connections that the operating system holds until they are accepted. Node's 511 is less than a proxy may open at
   * once; a connection beyond it waits for a second and more.
   */
  backlog: 4096,
  /** Open connections; one more is closed at once. */
  connections: 10_000,
  /**
   * Requests that are in their handlers or wait for them; one more is rejected with 503, unless its path begins with
   * `/health/`.
   */
  requests: 6_000,
  /** Requests that are in their handlers at a time: from the guard to the response. Further requests wait. */
  handled: 128,
  /**
   * Milliseconds after which a waiting request gets its handler, however many others are in theirs. This is checked
   * every 250 milliseconds.
   */
  queueTime: 100,
  /** Milliseconds for which the connection of a request that was rejected by the limit `requests` is not read. */
  rejectedPause: 250,
  /**
   * Requests that wait for earlier requests of their connection, on all connections. One more closes the connection
   * with most of them.
   */
  waiting: 20_000,
  /** Bytes of a request body. A longer body is rejected with 413. */
  bodyBytes: 16 * 1024,
  /** Chunks of a request body. A body in more chunks is rejected with 413. */
  bodyChunks: 1_000,
  /** Levels of arrays and objects in a JSON body. A deeper body is rejected with 400. */
  jsonDepth: 32,
  /** Bytes of a request's target, and of its headers' names and values, together. More are rejected with 431. */
  headerBytes: 16 * 1024,
  /** Header fields of a request. More are rejected with 431. */
  headerFields: 250,
  /** Milliseconds from a request's first byte to the end of its headers; then 408. */
  headersTimeout: 10_000,
  /** Milliseconds from a request's first byte to the end of its body; then 408. */
  requestTimeout: 15_000,
  /**
   * Milliseconds to a response, from the end of its request or of the response before it, whichever is later; then 503.
   */
  responseTimeout: 4_250,
  /**
   * Milliseconds without data in either direction after which a connection is closed, because the client does not take
   * its response. If the client read something at first, it may be up to twice as long.
   */
  takeTimeout: 14_000,
  /** Milliseconds for which a connection may be idle between two requests. */
  keepAliveTimeout: 65_000,
  /** Milliseconds for which a connection that ends is still read, so that its last response arrives. */
  lingerTimeout: 1_000,
  /** Milliseconds for which connections stay open after listening has stopped, for requests that are still arriving. */
  lastRequestTime: 1_000,
  /** The maximum of milliseconds for which a stopping service keeps listening until no new connection comes. */
  quietTime: 200,
  /** Milliseconds that requests in progress have when the service stops. */
  stopTimeout: 10_000,
} as const;
