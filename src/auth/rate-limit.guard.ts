import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Environment } from '../config/environment.js';
import { ApiError } from '../errors/api-error.js';
import type { Request, Response } from '../http/express-classes.js';

/** Seconds. A window begins with the key's first request after the previous window. */
const WINDOW = 60;

interface Window {
  requests: number;
  /** `performance.now()`, which no setting of the clock changes. */
  end: number;
}

/**
 * Rejects requests of an API key beyond `RATE_LIMIT_PER_MINUTE`, which each process counts separately. Every response says
 * how many remain (draft-ietf-httpapi-ratelimit-headers-10). Registered only if there is a limit, after BearerGuard.
 */
@Injectable()
export class RateLimitGuard implements CanActivate {
  /** Those that have not ended, by key, in the order in which they end. */
  private readonly windows = new Map<string, Window>();
  private readonly quota: number;

  constructor({ RATE_LIMIT_PER_MINUTE }: Environment) {
    this.quota = RATE_LIMIT_PER_MINUTE!;
  }

  canActivate(context: ExecutionContext): boolean {
    const isHttp = context.getType() === 'http';
    const user = isHttp ? context.getArgByIndex<Request>(0).user : undefined;
    if (user === undefined) {
      return true;
    }
    const now = performance.now();
    const { requests, end } = this.count(user.keyId, now);
    const seconds = Math.min(WINDOW, Math.ceil((end - now) / 1000));
    context.getArgByIndex<Response>(1).set({
      'RateLimit-Policy': `"default";q=${this.quota};w=${WINDOW}`,
      RateLimit: `"default";r=${Math.max(0, this.quota - requests)};t=${seconds}`,
    });
    if (requests > this.quota) {
      throw new ApiError('rate_limited', 'The API key made too many requests; try again later.', {
        headers: { 'Retry-After': String(seconds) },
      });
    }
    return true;
  }

  private count(key: string, now: number): Window {
    for (const [one, { end }] of this.windows) {
      if (end > now) {
        break;
      }
      this.windows.delete(one);
    }
    const window = this.windows.get(key) ?? { requests: 0, end: now + WINDOW * 1000 };
    window.requests += 1;
    this.windows.set(key, window);
    return window;
  }
}
