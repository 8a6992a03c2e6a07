/** The limits of the HTTP server for every client and request. Times are in milliseconds. */
export class HttpLimits {
  /** Connections not yet accepted. A proxy may open more than Node's 511 at once; those would wait for seconds. */
  backlog = 4096;
  /** Open connections. For one more, the one that has been idle for the longest time is closed. */
  connections = 10_000;
  /** Requests of a connection without a complete response. One more gets 503, is not handled, and is the last one. */
  requestsPerConnection = 20;
  /** Requests of a connection after its last one that are a flood: its network's connections are then read in turns. */
  excessPerConnection = 100;
  /** Such requests of all open connections, which take up to 2 KB each. Beyond that, a flood's connection is closed. */
  excess = 30_000;
  /** Between a flood and the next connection that waits for its turn to be read. */
  floodPause = 15;
  /** Requests without a complete response. For one more, the idlest such connection is closed, or its own if it has two. */
  pendingRequests = 12_000;
  /** Between a search in vain for such a connection and the next, because a search takes 70 µs. */
  searchPause = 5;
  /** Bytes that are held for clients: of heads, of bodies that are arriving, and of responses that they have not read. */
  heldBytes = 128 * 1024 * 1024;
  /** Of them, bytes of a connection that the system may keep when it is closed. With more, it stays open until they are read. */
  unreadBytesAtClose = 8 * 1024;
  /** Requests with a valid API key that are in handlers or wait for them. One key alone may have half of them. */
  admittedRequests = 6_000;
  /** Places in handlers for requests with an API key. Further requests wait for one until their deadline; then 503. */
  places = 384;
  /** Rows that a request asks for with `limit`, for each place that it takes. */
  rowsPerPlace = 32;
  /** Requests that a turn of the event loop begins to handle, or, of remembered keys, as many as there are free {@link places} and {@link turn} has time for. */
  requestsPerTurn = 8;
  /** For a turn of the event loop: it begins to handle fewer requests, if those of the last one took long. */
  turn = 20;
  /** Bytes of a request body; a longer one is rejected with 413. */
  bodyBytes = 16 * 1024;
  /** Bytes of a body that is parsed at once. More take milliseconds, so a larger body waits for a turn of its key. */
  bodyBytesAtOnce = 1024;
  /** Chunks of a request body, or as many as its bytes / 64; with more, no more is read, and it is rejected with 413. */
  bodyChunks = 1024;
  /** Levels of arrays and objects in a JSON body; a deeper one is rejected with 400. */
  jsonDepth = 32;
  /** Bytes of a request's target, and of its headers' names and values, together; more are rejected with 431. */
  headerBytes = 16 * 1024;
  /** Header fields of a request; more are rejected with 431. */
  headerFields = 250;
  /** From the arrival of a request, with its body, for which it may wait until its last statement begins; then 503. */
  deadline = 3_000;
  /** From a request's first byte to the end of its headers; then 408. */
  headersTimeout = 10_000;
  /** From a request's first byte to the end of its body; then 408. */
  requestTimeout = 15_000;
  /** Without data in either direction during a request; then its connection is closed. Longer than the time to 408. */
  socketTimeout = 17_000;
  /** For which a connection may be idle after a request: longer than proxies keep idle connections. */
  readonly keepAliveTimeout: number;
  /** From the response to input that is not handled to the end of its connection. */
  lingerTimeout = 1_000;
  /** For requests in progress when the service stops. */
  stopTimeout = 10_000;

  constructor(keepAliveSeconds = 620) {
    this.keepAliveTimeout = keepAliveSeconds * 1_000;
  }
}
