/** What a client may ask of the HTTP server, whatever the request is for, before it is turned away. */
export const HTTP_LIMITS = {
  /**
   * Connections that the operating system holds until they are accepted. Node's 511 is less than a proxy may open at
   * once; a connection beyond it is made to wait for a second and more.
   */
  backlog: 4096,
  /** Bytes of a request body; more is 413. */
  bodyBytes: 16 * 1024,
  /** Levels of arrays and objects in a JSON body; more is 400. */
  jsonDepth: 32,
  /** Bytes of a request's line and headers together; more is 431. */
  headerBytes: 16 * 1024,
  /** Milliseconds from a request's first byte to the end of its headers; then 408. */
  headersTimeout: 10_000,
  /** Milliseconds from a request's first byte to the end of its body; then 408. */
  requestTimeout: 15_000,
  /** Milliseconds a connection may stay open between two requests. */
  keepAliveTimeout: 65_000,
  /** Milliseconds for which a refused connection is still read, so that its answer arrives. */
  lingerTimeout: 1_000,
  /** Milliseconds that requests under way have to be answered when the service stops. */
  stopTimeout: 10_000,
} as const;
