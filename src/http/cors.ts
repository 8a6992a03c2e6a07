import { addHeaders, type Headers, type Response, varyBy } from './response.js';

/** The headers of the response to a preflight request. */
const PREFLIGHT: Headers = {
  'Access-Control-Allow-Methods': 'GET, HEAD, POST',
  'Access-Control-Allow-Headers':
    'Authorization, Content-Type, Idempotency-Key, X-Request-Id, traceparent',
  // Seconds for which a browser may cache it. Chromium's maximum.
  'Access-Control-Max-Age': 7_200,
};

/** The response headers that a page may read, in addition to those that the Fetch standard allows. */
const EXPOSED =
  'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id, Idempotent-Replayed, Allow, WWW-Authenticate';

/**
 * Lets the pages of other origins read this service's responses, including errors (Fetch standard, section 3.2).
 *
 * The `cors` package would respond to every OPTIONS, even for origins that are not allowed, and would not use
 * `HttpAdapter.reply`.
 */
export class Cors {
  private readonly origins: ReadonlySet<string>;
  private readonly isOpen: boolean;
  private readonly exposed: string;

  /**
   * @param origins the allowed origins; `*` stands for all.
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
   * @returns whether the request is a preflight of an allowed origin. It then gets a 204, even if its path has no
   *   route.
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
