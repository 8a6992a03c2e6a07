import { ApiError } from '../errors/api-error.js';
import { isRefusedValue } from '../errors/database-error.js';

export const BATCH_LIMITS = {
  /** The maximum number of requests in one statement. */
  size: 256,
  /** Milliseconds after which the next batch does not wait for the response to the last one. */
  patience: 25,
  /** The maximum number of concurrent statements. Each uses a connection. */
  inFlight: 3,
  /** Requests waiting for a statement; one more is rejected. */
  waiting: 6_000,
  /** Milliseconds that a request may wait for its statement. It is rejected later, when a statement could be sent. */
  waitingTime: 750,
} as const;

interface Waiting<Request, Result> {
  request: Request;
  since: number;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

const noStatement = () =>
  new ApiError('unavailable', 'The database did not respond in time; try again.');

/**
 * Runs one statement for all requests that wait, so that no result is older than its request.
 *
 * What a turn of the event loop asks for is sent as a batch, if the last batch was answered: few large batches cost less
 * than many small ones. After {@link BATCH_LIMITS.patience}, its session may hang or wait for a lock, and the
 * next batches use other sessions.
 *
 * If PostgreSQL rejects a value, the requests are sent again one by one, so that only the one that has it fails. After
 * any other error they are not sent again, because PostgreSQL may have executed the batch.
 */
export class Batcher<Request, Result> {
  private waiting: Waiting<Request, Result>[] = [];
  private inFlight = 0;
  private isScheduled = false;
  /** The last batch, while the next one waits for its response. */
  private awaited: Waiting<Request, Result>[] | undefined;
  private patience?: NodeJS.Timeout;

  /** @param run returns the results in the order of the requests. PostgreSQL promises no order of rows. */
  constructor(
    private readonly run: (requests: Request[]) => Promise<Result[]>,
    private readonly limits: Record<keyof typeof BATCH_LIMITS, number> = BATCH_LIMITS,
  ) {}

  /** @throws ApiError `unavailable` if too many requests wait or this one waits too long, and what `run` throws. */
  ask(request: Request): Promise<Result> {
    if (this.waiting.length >= this.limits.waiting) {
      return Promise.reject(noStatement());
    }
    return new Promise((resolve, reject) => {
      this.waiting.push({ request, since: performance.now(), resolve, reject });
      this.schedule(process.nextTick);
    });
  }

  private schedule(soon: (send: () => void) => void): void {
    if (!this.isScheduled && this.waiting.length > 0 && this.awaited === undefined) {
      this.isScheduled = true;
      soon(() => {
        this.isScheduled = false;
        this.send();
      });
    }
  }

  private send(): void {
    const overdue = performance.now() - this.limits.waitingTime;
    while (this.waiting.length > 0 && this.waiting[0]!.since < overdue) {
      this.waiting.shift()!.reject(noStatement());
    }
    if (this.waiting.length === 0 || this.inFlight === this.limits.inFlight) {
      return;
    }
    const batch = this.waiting.splice(0, this.limits.size);
    this.inFlight += 1;
    this.awaited = batch;
    this.patience =
      this.patience?.refresh() ??
      setTimeout(() => this.stopAwaiting(this.awaited), this.limits.patience).unref();
    void this.settle(batch).finally(() => {
      this.inFlight -= 1;
      this.stopAwaiting(batch);
    });
  }

  /** Lets the next batch leave, unless it waits for another batch than this one. */
  private stopAwaiting(batch: Waiting<Request, Result>[] | undefined): void {
    if (this.awaited === batch) {
      this.awaited = undefined;
    }
    // Requests that came with the response are handled first.
    this.schedule(setImmediate);
  }

  private async settle(batch: Waiting<Request, Result>[]): Promise<void> {
    try {
      const results = await this.run(batch.map(({ request }) => request));
      batch.forEach(({ resolve }, i) => resolve(results[i]!));
    } catch (error) {
      if (batch.length > 1 && isRefusedValue(error)) {
        for (const one of batch) {
          await this.settle([one]);
        }
      } else {
        batch.forEach(({ reject }) => reject(error));
      }
    }
  }
}
