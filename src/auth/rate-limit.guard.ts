import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';
import { Environment } from '../config/environment.js';
import { ApiError } from '../errors/api-error.js';
import type { Request, Response } from '../http/express-classes.js';

/** Seconds. A window begins with the key's first request after the previous window. */
const WINDOW = 60;

/**
 * Rejects requests of an API key beyond `RATE_LIMIT_PER_MINUTE`, which each process counts separately. Every response says
 * how many remain (draft-ietf-httpapi-ratelimit-headers-10). Registered only if there is a limit, after BearerGuard.
 */
@Injectable()
export class RateLimitGuard implements CanActivate {
  private readonly counts: RateLimiterMemory;
  private readonly policy: string;

  constructor({ RATE_LIMIT_PER_MINUTE: quota }: Environment) {
    this.counts = new RateLimiterMemory({ points: quota!, duration: WINDOW });
    this.policy = `"default";q=${quota};w=${WINDOW}`;
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const isHttp = context.getType() === 'http';
    const user = isHttp ? context.getArgByIndex<Request>(0).user : undefined;
    if (user === undefined) {
      return true;
    }
    // `consume` rejects with the count if it is over the limit.
    const count = await this.counts.consume(user.keyId).catch((over: RateLimiterRes) => over);
    const seconds = Math.ceil(count.msBeforeNext / 1000);
    context.getArgByIndex<Response>(1).set({
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
