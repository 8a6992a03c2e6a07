/** The limits of the HTTP server for every client and request. Times are in milliseconds. */
export class HttpLimits {
  /** Connections not yet accepted. A proxy may open more than Node's 511 at once; those would wait for seconds. */
  backlog = 4096;
  /** Open connections. For one more, the one that has been idle for the longest time is closed. */
  connections = 10_000;
  /** Requests of a connection without a complete response. One more gets 503, is not handled, and is the last one. */
  requestsPerConnection = 20;
  /** Requests of a connection after its last one that are a flood: connections of its network are then read in turns. */
  excessPerConnection = 100;
  /** Such requests of all open connections, which take up to 2 KB each. Beyond that, a flood's connection is closed. */
  excess = 30_000;
  /** After a flood, for which new connections of its network wait for a turn to be read. */
  floodedFor = 10_000;
  /** Between a flood and the next connection that waits for a turn. */
  floodPause = 25;
  /** Requests without a complete response. For one more, the idlest such connection is closed, or its own if it has two. */
  openRequests = 12_000;
  /** A request counts as one of them, and as one more for so many bytes of its head, or of what has arrived of a request. */
  requestBytes = 4 * 1024;
  /** Those of them with an API key; one more is rejected with 503. One key may have half of them. */
  requests = 6_000;
  /** Bytes of responses that clients do not read, beyond the system's buffers; more are rejected as {@link requests}. */
  unreadBytes = 128 * 1024 * 1024;
  /** Bytes in the system's buffers that clients do not read. Beyond that, connections without progress are reset. */
  unreadInSystem = 96 * 1024 * 1024;
  /** Places for requests with an API key that are in their handlers. Further requests wait. */
  handlers = 128;
  /** Bytes of a response for each of those places that requests of its key and operation take. */
  placeBytes = 8 * 1024;
  /** After which an operation's responses may be small again. */
  sizeTimeout = 60_000;
  /** Requests that a turn of the event loop begins to handle, or as many as bring those in progress to {@link handlers}. */
  requestsPerTurn = 8;
  /** Bytes of a request body; a longer one is rejected with 413. */
  bodyBytes = 16 * 1024;
  /** Chunks of a request body; one with more is rejected with 413. So many are read if nobody reads the body. */
  bodyChunks = 1024;
  /** Bytes, and chunks, of a body that are read after the response. Then, the connection is not read until its time-out. */
  discardedBytes = 1024 * 1024;
  discardedChunks = 4096;
  /** Levels of arrays and objects in a JSON body; a deeper one is rejected with 400. */
  jsonDepth = 32;
  /** Bytes of a request's target, and of its headers' names and values, together; more are rejected with 431. */
  headerBytes = 16 * 1024;
  /** Header fields of a request; more are rejected with 431. */
  headerFields = 250;
  /** From the arrival of a request, with its body, until which it may wait for the service. Then 503: no handler takes 5 s. */
  deadline = 4_750;
  /** From a request's first byte to the end of its headers; then 408. */
  headersTimeout = 10_000;
  /** From a request's first byte to the end of its body; then 408. */
  requestTimeout = 15_000;
  /** Without data in either direction during a request; then its connection is closed. Longer than the time to 408. */
  socketTimeout = 17_000;
  /** For which a connection may be idle between two requests. */
  keepAliveTimeout = 65_000;
  /** From the response to input that is not HTTP to the end of its connection. */
  lingerTimeout = 1_000;
  /** For requests in progress when the service stops. */
  stopTimeout = 10_000;
}
