import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';
import { Environment } from '../config/environment.js';
import { ApiError } from '../errors/api-error.js';
import type { Request, Response } from '../http/express-classes.js';

/**
 * Seconds for which the limit of an API key applies. A window begins with the key's first request after the previous
 * window.
 */
const WINDOW = 60;

/**
 * Rejects requests of an API key beyond `RATE_LIMIT_PER_MINUTE`. The response to every counted request says how many
 * requests remain (`RateLimit` and `RateLimit-Policy`, draft-ietf-httpapi-ratelimit-headers-10). Each process counts
 * separately, and counts only requests with valid keys. A count is dropped at the end of its window.
 *
 * It runs after the guard that checks keys, and is registered only if there is a limit.
 */
@Injectable()
export class RateLimitGuard implements CanActivate {
  private readonly counts: RateLimiterMemory;
  private readonly policy: string;

  constructor(@Inject(Environment) { RATE_LIMIT_PER_MINUTE: quota }: Environment) {
    this.counts = new RateLimiterMemory({ points: quota!, duration: WINDOW });
    this.policy = `"default";q=${quota};w=${WINDOW}`;
  }

  /** @throws ApiError `rate_limited`. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const http = context.switchToHttp();
    const { user } = http.getRequest<Request>();
    if (user === undefined) {
      // The controller is public.
      return true;
    }
    // `consume` rejects with the count if it is over the limit.
    const count = await this.counts.consume(user.keyId).catch((over: RateLimiterRes) => over);
    const seconds = Math.ceil(count.msBeforeNext / 1000);
    http.getResponse<Response>().set({
      'RateLimit-Policy': this.policy,
      RateLimit: `"default";r=${count.remainingPoints};t=${seconds}`,
    });
    if (count.consumedPoints > this.counts.points) {
      throw new ApiError('rate_limited', 'The API key made too many requests; try again later.', {
        headers: { 'Retry-After': String(seconds) },
      });
    }
    return true;
  }
}
