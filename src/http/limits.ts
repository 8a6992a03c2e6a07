/** The limits of the HTTP server for every client and request. Times are in milliseconds. */
export class HttpLimits {
  /** Connections not yet accepted. A proxy may open more than Node's 511 at once; those would wait for seconds. */
  backlog = 4096;
  /** Open connections; one more is closed at once. */
  connections = 10_000;
  /** Requests that are in their handlers or wait for them; one more is rejected with 503. */
  requests = 6_000;
  /** Requests that are in their handlers at a time. Further requests wait. */
  handled = 128;
  /** How long a request waits at most until it gets its handler, however many others are in theirs. */
  queueTime = 250;
  /** Bytes of a request body; a longer one is rejected with 413. */
  bodyBytes = 16 * 1024;
  /** Levels of arrays and objects in a JSON body; a deeper one is rejected with 400. */
  jsonDepth = 32;
  /** Bytes of a request's target, and of its headers' names and values, together; more are rejected with 431. */
  headerBytes = 16 * 1024;
  /** Header fields of a request; more are rejected with 431. */
  headerFields = 250;
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
