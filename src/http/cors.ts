import type { ServerResponse } from 'node:http';
import type { NextFunction } from 'express';
import type { Request, Response } from './express-classes.js';

const REQUEST_HEADERS = 'Authorization, Content-Type, Idempotency-Key, X-Request-Id, traceparent';

/** The response headers that a page may read, in addition to those that the Fetch standard allows. */
const EXPOSED =
  'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id, Idempotent-Replayed, Allow, WWW-Authenticate';

/** Seconds for which a browser may cache the response to a preflight: Chromium's maximum. */
const MAX_AGE = 7_200;

/** The response to a preflight of an allowed origin, also for a path without routes: so the page can read its 404. */
export const isAllowedPreflight = (response: ServerResponse) =>
  response.hasHeader('Access-Control-Allow-Methods');

/**
 * Lets the pages of other origins read this service's responses, including errors (Fetch standard, section 3.2). The
 * package `cors` would treat every OPTIONS as a preflight, and respond to origins that are not allowed.
 *
 * @param origins the allowed origins; `*` alone stands for all.
 * @param isLimited whether responses have the headers of a rate limit.
 * @param methods returns the methods of all routes.
 */
export function cors(origins: string[], isLimited: boolean, methods: () => ReadonlySet<string>) {
  const isOpen = origins.includes('*');
  const exposed = isLimited ? `${EXPOSED}, RateLimit, RateLimit-Policy` : EXPOSED;
  return ({ method, headers }: Request, response: Response, next: NextFunction): void => {
    const { origin } = headers;
    if (!isOpen) {
      response.vary('Origin');
    }
    const allowed = isOpen ? '*' : origin;
    if (allowed !== undefined && origins.includes(allowed)) {
      response.setHeader('Access-Control-Allow-Origin', allowed);
      response.setHeader('Access-Control-Expose-Headers', exposed);
      const asked = headers['access-control-request-method'];
      if (method === 'OPTIONS' && origin !== undefined && asked !== undefined) {
        response.setHeader(
          'Access-Control-Allow-Methods',
          [...methods()].filter((one) => one !== 'OPTIONS').join(', '),
        );
        response.setHeader('Access-Control-Allow-Headers', REQUEST_HEADERS);
        response.setHeader('Access-Control-Max-Age', MAX_AGE);
      }
    }
    next();
  };
}
