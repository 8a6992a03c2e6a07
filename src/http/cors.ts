import { addHeaders, type Headers, type Response, varyBy } from './response.js';

/** What a page is told before it sends a request that is not a simple one. */
const PREFLIGHT: Headers = {
  'Access-Control-Allow-Methods': 'GET, HEAD, POST',
  'Access-Control-Allow-Headers':
    'Authorization, Content-Type, Idempotency-Key, X-Request-Id, traceparent',
  // Seconds that a browser may go by it. Chromium takes no more.
  'Access-Control-Max-Age': 7_200,
};

/** The headers of answers that a page may read, besides those that it may read anyway. */
const EXPOSED =
  'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id, Idempotent-Replayed, Allow, WWW-Authenticate';

/**
 * Lets the pages of other origins read this service's answers, errors too (Fetch standard, section 3.2).
 *
 * The `cors` package would answer every OPTIONS, that of a page which is not let in too, and past
 * `HttpAdapter.reply`.
 */
export class Cors {
  private readonly origins: ReadonlySet<string>;
  private readonly isOpen: boolean;
  private readonly exposed: string;

  /**
   * @param origins those that are let in; `*` stands for all.
   * @param isLimited whether answers tell of a rate limit.
   */
  constructor(origins: string[], isLimited: boolean) {
    this.origins = new Set(origins);
    this.isOpen = this.origins.has('*');
    this.exposed = isLimited ? `${EXPOSED}, RateLimit, RateLimit-Policy` : EXPOSED;
  }

  /**
   * Adds what the answer to a request carries.
   *
   * @returns whether the request is a preflight of a page that is let in, which needs no other answer.
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
