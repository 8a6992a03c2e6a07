import { StoreError } from './store-error.js';

/** Worth another attempt. 409 is `idempotency_key_in_use`; 502 and 504 come from proxies. */
const RETRIED: readonly number[] = [408, 409, 429, 502, 503, 504];

/** Milliseconds after which an attempt without a response is given up. */
const ATTEMPT_TIMEOUT = 20_000;

/** Milliseconds of the first and of the longest backoff. */
const BACKOFF = { first: 500, longest: 5_000 };

/**
 * A `fetch` that sends a request again until `retryFor` milliseconds have passed, and a last time then, for which it
 * takes a tenth of that time more at most. Between attempts it waits for as long as `Retry-After` says, at least for an
 * exponential backoff, and for a jitter of up to another backoff. The request must be safe to repeat.
 *
 * @param retryFor 0 for one attempt.
 * @throws RangeError if `retryFor` is negative or not a number.
 * @returns a function that throws a {@link StoreError} if the last attempt had no response.
 */
export function retrying(fetch: typeof globalThis.fetch, retryFor: number) {
  if (!(retryFor >= 0)) {
    throw new RangeError('retryFor must be a number of milliseconds, 0 or more.');
  }
  return async (request: Request): Promise<Response> => {
    const end = performance.now() + retryFor;
    for (let backoff = BACKOFF.first; ; backoff = Math.min(2 * backoff, BACKOFF.longest)) {
      const rest = end - performance.now();
      const isLast = rest <= 0;
      const limit = isLast ? retryFor / 10 || ATTEMPT_TIMEOUT : rest;
      let retryAfter = 0;
      try {
        // Node rejects fractions.
        const signal = AbortSignal.timeout(Math.ceil(Math.min(limit, ATTEMPT_TIMEOUT)));
        const response = await fetch(request.clone(), { signal });
        // The body is read here because the connection may break in it, too.
        const body = await response.text();
        retryAfter = millisecondsOf(response.headers.get('Retry-After') ?? '0');
        const isInTime = performance.now() + retryAfter <= end;
        if (isLast || !isInTime || !RETRIED.includes(response.status)) {
          return new Response(body, response);
        }
      } catch (cause) {
        if (isLast) {
          throw new StoreError(
            { code: 'no_response', message: `No response: ${cause}` },
            { cause },
          );
        }
      }
      const wait = Math.max(retryAfter, backoff) + Math.random() * backoff;
      const longest = Math.max(0, end - performance.now());
      await new Promise((resolve) => setTimeout(resolve, Math.min(wait, longest)));
    }
  };
}

/** @param retryAfter seconds or a date (RFC 9110, section 10.2.3). */
function millisecondsOf(retryAfter: string): number {
  const seconds = Number(retryAfter);
  return (Number.isNaN(seconds) ? Date.parse(retryAfter) - Date.now() : seconds * 1000) || 0;
}
