import type { CorsOptions } from '@nestjs/common/interfaces/external/cors-options.interface.js';

/** Lets the pages of these origins, or of all if it is `*`, read the responses, errors too. The routes answer OPTIONS. */
export const corsFor = (origins: string[]): CorsOptions => ({
  origin: origins.includes('*') ? '*' : origins,
  allowedHeaders: 'Authorization, Content-Type, Idempotency-Key, X-Request-Id, traceparent',
  // In addition to those that the Fetch standard allows.
  exposedHeaders:
    'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id, Idempotent-Replayed, Allow, WWW-Authenticate, ' +
    'RateLimit, RateLimit-Policy',
  // Seconds: Chromium's maximum.
  maxAge: 7_200,
  preflightContinue: true,
});
