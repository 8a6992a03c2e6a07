import { addHeaders, type Headers, type Response, varyBy } from './response.js';

/** What a page is told before it sends a request that is not a simple one. */
const PREFLIGHT: Headers = {
  'Access-Control-Allow-Methods': 'GET, HEAD, POST',
  'Access-Control-Allow-Headers':
    'Authorization, Content-Type, Idempotency-Key, X-Request-Id, traceparent',
  // Seconds for which a browser may remember it: the most that Chromium does.
  'Access-Control-Max-Age': 7_200,
};

/** The headers of responses that a page may read, besides those that the Fetch standard lets every page read. */
const EXPOSED =
  'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id, Idempotent-Replayed, Allow, WWW-Authenticate';

/**
 * Lets the pages of other origins read this service's responses, errors too (Fetch standard, section 3.2).
 *
 * The `cors` package would respond to every OPTIONS, also for origins that are not allowed, and past
 * `HttpAdapter.reply`.
 */
export class Cors {
  private readonly origins: ReadonlySet<string>;
  private readonly isOpen: boolean;
  private readonly exposed: string;

  /**
   * @param origins those that are allowed; `*` stands for all.
   * @param isLimited whether responses have the headers of a rate limit.
   */
  constructor(origins: string[], isLimited: boolean) {
    this.origins = new Set(origins);
    this.isOpen = this.origins.has('*');
    this.exposed = isLimited ? `${EXPOSED}, RateLimit, RateLimit-Policy` : EXPOSED;
  }

  /**
   * Adds the headers of the response to a request.
   *
   * @returns whether the request is a preflight of an allowed origin, which needs no other response.
   */
  addTo(response: Response): boolean {
    const { method, headers } = response.req;
    const { origin } = headers;
    if (!this.isOpen) {
      varyBy(response, 'Origin');
    }
    const allowed = this.isOpen ? '*' : origin;
    if (allowed === undefined || !this.origins.has(allowed)) {
      return false;
    }
    addHeaders(response, {
      'Access-Control-Allow-Origin': allowed,
      'Access-Control-Expose-Headers': this.exposed,
    });
    const isPreflight =
      method === 'OPTIONS' &&
      origin !== undefined &&
      headers['access-control-request-method'] !== undefined;
    if (isPreflight) {
      addHeaders(response, PREFLIGHT);
    }
    return isPreflight;
  }
}
