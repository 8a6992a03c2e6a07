import { abortable } from './abortable.js';
import { type Sent, StoreError } from './store-error.js';

/** Milliseconds between two requests that are spread, until a response tells. */
const FIRST_PACE = 5_000;

/** A call as the gate sees it. */
export interface Visitor extends Sent {
  /** Earlier calls have lower numbers. */
  order: number;
  signal?: AbortSignal | undefined;
}

interface Waiter extends Visitor {
  pass: () => void;
  fail: (error: StoreError) => void;
}

/**
 * What all calls of a client pass before each attempt. It is open until a response with 429. Then nobody passes until the
 * limit's reset. After it, calls pass in the order in which they were made, spread over the time that `RateLimit` tells
 * (draft-ietf-httpapi-ratelimit-headers-10): first one alone, because its response tells it.
 *
 * @param patience milliseconds for which a server that only sends 429 is waited for.
 * @param attempt milliseconds that an attempt takes at most.
 */
export function createGate(patience: number, attempt: number) {
  const waiting: Waiter[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let closedUntil = 0;
  let passedAt = 0;
  /** Milliseconds between two requests; 0 if they are not spread. */
  let pace = 0;
  /** The last 429, and since when there was no other response. */
  let refusal: { error: StoreError; since: number } | undefined;
  const isTooLong = () => refusal !== undefined && closedUntil > refusal.since + patience;

  function admit(): void {
    clearTimeout(timer);
    while (waiting.length > 0) {
      const now = performance.now();
      const opensAt = Math.max(closedUntil, passedAt + pace);
      if (closedUntil > now && refusal && isTooLong()) {
        const { error } = refusal;
        const retryAfter = Math.ceil((closedUntil - now) / 1000);
        const { fail, idempotencyKey } = waiting.shift()!;
        fail(new StoreError({ ...error, message: error.message, retryAfter, idempotencyKey }));
      } else if (opensAt > now) {
        timer = setTimeout(admit, Math.ceil(opensAt - now));
        return;
      } else {
        passedAt = now;
        waiting.shift()!.pass();
      }
    }
  }

  return {
    /**
     * Waits for the turn of a call.
     *
     * @throws the signal's reason; StoreError with the last 429 if the reset is too late to be waited for.
     */
    enter: (visitor: Visitor) =>
      abortable<void>(visitor.signal, (pass, fail) => {
        const waiter = { ...visitor, pass, fail };
        waiting.push(waiter);
        waiting.sort((one, other) => one.order - other.order);
        admit();
        return () => {
          const place = waiting.indexOf(waiter);
          // It may have passed.
          if (place >= 0) {
            waiting.splice(place, 1);
            // The next one may pass, or the timer is not needed.
            admit();
          }
        };
      }),

    /** Notes a 429 whose reset is so many milliseconds away. @returns whether that is too long to be waited for. */
    close(error: StoreError, wait: number): boolean {
      const now = performance.now();
      // Otherwise, nothing has been sent for a while: the server may have had other responses.
      const isSame = refusal !== undefined && now < closedUntil + attempt;
      closedUntil = Math.max(closedUntil, now + wait);
      refusal = { error, since: isSame ? refusal!.since : now };
      pace = Math.min(patience, FIRST_PACE);
      admit();
      return isTooLong();
    },

    /** Notes any other response. */
    note({ headers, ok }: Response): void {
      // Until then, it is a response to an earlier request.
      if (performance.now() >= closedUntil) {
        refusal = undefined;
      }
      if (pace > 0) {
        const limit = /;\s*r=(\d+)[^,]*;\s*t=(\d+)/.exec(headers.get('RateLimit') ?? '');
        const [, requests = 0, seconds = 0] = limit ?? [];
        // An error without it may be a proxy's, whose server must not get all calls at once.
        if (limit !== null || ok) {
          // If nobody waits, the limit suffices.
          pace = waiting.length && Math.min(patience, (1000 * +seconds) / (+requests + 1));
        } else {
          pace = Math.min(pace, FIRST_PACE);
        }
        admit();
      }
    },
  };
}
