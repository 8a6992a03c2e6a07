/** What a client may ask of the HTTP server, whatever the request is for, before it is turned away. */
export const HTTP_LIMITS = {
  /**
   * Connections that the operating system holds until they are accepted. Node's 511 is less than a proxy may open at
   * once; a connection beyond it is made to wait for a second and more.
   */
  backlog: 4096,
  /** Open connections; one more is closed at once. */
  connections: 10_000,
  /** Milliseconds: a turn of the event loop that takes longer delays new connections, and they go first then. */
  longTurn: 5,
  /** Milliseconds for which they go first at most: no request is let in to its handler. So long a stop accepts, too. */
  acceptTime: 200,
  /** Milliseconds before they may go first again, at least; as many as they took, where that is more. */
  acceptPause: 20,
  /** Requests under way in this process; one more is 503 before its route is looked for, unless it is for `/health`. */
  underWay: 6_000,
  /** Milliseconds for which the connection of such a one is not read then, or up to 250 more. */
  refusedRest: 250,
  /** Requests in their handlers above which others wait at the door. */
  handled: 128,
  /** Milliseconds that a request waits at the door, or up to a quarter more, however many are in their handlers then. */
  doorTime: 100,
  /** Requests of one connection that are worked on while an earlier one of it is being answered; more wait. */
  pipelined: 32,
  /** The same while requests wait at the door: so no client gets more than others by sending many at a time. */
  pipelinedInCrowd: 1,
  /** Requests of all connections that wait so; for one more, the connection that has most of them is cut. */
  held: 20_000,
  /**
   * Requests that may wait so on a connection that brought no valid key yet; with more, those begun are its last, once it
   * was given as many answers as {@link HTTP_LIMITS.pipelined}.
   */
  heldWithoutKey: 256,
  /** Bytes of answers that the clients of all connections have not taken; above it, those with most of them are cut. */
  unsentBytes: 96 * 1024 * 1024,
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
  /** Milliseconds from a request's end, and from the answer before it on its connection, to its answer; then 503. */
  answerTimeout: 4_250,
  /** Milliseconds, counted likewise, until a request's client has taken the answer; then the connection is cut. */
  takeTimeout: 30_000,
  /** Milliseconds a connection may stay open between two requests. */
  keepAliveTimeout: 65_000,
  /** Milliseconds for which a connection that was ended is still read, so that its last answer arrives. */
  lingerTimeout: 1_000,
  /**
   * Milliseconds for which a service that drains keeps connections open, after it stopped listening, for a request that
   * its client sent on one meanwhile.
   */
  lastRequestTime: 1_000,
  /** Milliseconds that requests under way have to be answered when the service stops. */
  stopTimeout: 10_000,
} as const;
