import type { PoolClient } from 'pg';
import { ApiError, overloaded } from '../errors/api-error.js';
import { isRefusedValue } from '../errors/database-error.js';
import { DATABASE_LIMITS } from './limits.js';
import { type SessionSource, withSession } from './statement.js';

/** The numbers that differ from {@link DATABASE_LIMITS}. */
export type LaneLimits = Partial<
  Record<'requestsPerStatement' | 'rowsPerStatement' | 'statementsPerLane' | 'patience', number>
>;

export interface LaneOptions<Request> extends LaneLimits {
  /** Requests with equal keys have one result. Without this, each has its own. */
  keyOf?: (request: Request) => unknown;
  /** The rows that a request asks for; 1 without this. */
  rowsOf?: (request: Request) => number;
}

interface Waiting<Request, Result> {
  readonly request: Request;
  /** `performance.now()` until which the use of a session may begin for it. */
  readonly deadline: number;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  /** Where its result is among those of its batch. */
  place: number;
  /** How many requests, from this one on, a batch may have. */
  most: number;
}

/**
 * The one place where requests wait for the database: a lane for each kind of statement. It runs one for all that wait, so
 * that no result is older than its request.
 *
 * What a turn of the event loop asks for is sent together, if the last batch was answered: few large batches cost less
 * than many small ones. If it is not answered in time, its session may hang or wait for a lock, and the next batch gets
 * another one. A batch is made when it has its session. Until then, a request is rejected at its deadline, or before, if no
 * session can be had.
 *
 * If PostgreSQL refuses a value, each half of the batch is sent again, so that only requests with such a value fail. After
 * any other error they are not sent again, because PostgreSQL may have executed the batch.
 */
export class Lane<Request, Result> {
  private waiting: Waiting<Request, Result>[] = [];
  /** Those that are sent, or await a session. */
  private batches = 0;
  /** The last batch, while the next one waits for its response. */
  private last?: Waiting<Request, Result>[];
  private patience?: NodeJS.Timeout;
  /** When the next request is overdue, or before. */
  private due = Infinity;
  private expiry?: NodeJS.Timeout;
  private readonly options: LaneOptions<Request> & typeof DATABASE_LIMITS;

  /**
   * @param run returns the results in the order of `requests`: PostgreSQL promises no order of rows. Requests with equal
   *   keys are one of these, and `count` is how many there are.
   */
  constructor(
    private readonly sessions: SessionSource,
    private readonly run: (
      requests: Request[],
      session: PoolClient,
      count: number,
    ) => Promise<Result[]>,
    options: LaneOptions<Request> = {},
  ) {
    this.options = Object.assign(Object.create(DATABASE_LIMITS), options);
  }

  /** @param deadline by `performance.now()`. @throws ApiError `unavailable` if it is over before, and what `run` throws. */
  ask(request: Request, deadline: number): Promise<Result> {
    // It waited for its turn or its key until then.
    if (deadline <= performance.now()) {
      return Promise.reject(overloaded('overdue'));
    }
    return new Promise((resolve, reject) => {
      this.waiting.push({ request, deadline, resolve, reject, place: 0, most: Infinity });
      if (deadline < this.due) {
        this.expire();
      }
      this.schedule(process.nextTick);
    });
  }

  private schedule(soon: (send: () => void) => void): void {
    const isFree = this.last === undefined && this.batches < this.options.statementsPerLane;
    if (isFree && this.waiting.length > 0) {
      const batch: Waiting<Request, Result>[] = [];
      this.last = batch;
      this.batches += 1;
      this.patience =
        this.patience?.refresh() ??
        setTimeout(() => this.letNextLeave(this.last), this.options.patience).unref();
      soon(() => void this.send(batch));
    }
  }

  private async send(batch: Waiting<Request, Result>[]): Promise<void> {
    try {
      const results = await withSession(this.sessions, async (session) => {
        const requests = this.fill(batch);
        return requests.length > 0 ? this.run(requests, session, batch.length) : [];
      });
      batch.forEach(({ resolve, place }) => resolve(results[place]!));
    } catch (error) {
      this.fail(batch, error);
    }
    this.batches -= 1;
    this.letNextLeave(batch);
  }

  /** @returns the requests of the batch, equal ones once. */
  private fill(batch: Waiting<Request, Result>[]): Request[] {
    if (this.due <= performance.now()) {
      this.expire();
    }
    const { keyOf, rowsOf, requestsPerStatement, rowsPerStatement } = this.options;
    const most = Math.min(this.waiting[0]?.most ?? 0, requestsPerStatement);
    const requests: Request[] = [];
    const places = new Map<unknown, number>();
    let rows = 0;
    for (const one of this.waiting.slice(0, most)) {
      const key = keyOf?.(one.request) ?? one;
      one.place = places.get(key) ?? requests.length;
      if (one.place === requests.length) {
        rows += rowsOf?.(one.request) ?? 1;
        if (rows > rowsPerStatement && requests.length > 0) {
          break;
        }
        requests.push(one.request);
        places.set(key, one.place);
      }
      batch.push(one);
    }
    this.waiting.splice(0, batch.length);
    return requests;
  }

  private letNextLeave(batch: Waiting<Request, Result>[] | undefined): void {
    if (this.last === batch) {
      this.last = undefined;
    }
    // Requests that came with the response are handled first.
    this.schedule(setImmediate);
  }

  /** @param batch is empty if there was no session. */
  private fail(batch: Waiting<Request, Result>[], error: unknown): void {
    if (batch.length > 1 && isRefusedValue(error)) {
      const half = Math.ceil(batch.length / 2);
      batch.forEach((one, i) => (one.most = i < half ? half : batch.length - half));
      this.waiting.unshift(...batch);
      this.expire();
    } else {
      const failed = batch.length > 0 ? batch : this.waiting.splice(0);
      failed.forEach(({ reject }) => reject(error));
    }
  }

  /** Rejects what is overdue, now and when the next one is. */
  private expire(): void {
    const now = performance.now();
    const overdue = this.waiting.filter(({ deadline }) => deadline <= now);
    this.waiting = this.waiting.filter(({ deadline }) => deadline > now);
    this.due = Math.min(...this.waiting.map(({ deadline }) => deadline));
    clearTimeout(this.expiry);
    if (this.due < Infinity) {
      this.expiry = setTimeout(() => this.expire(), this.due - now).unref();
    }
    const message = 'The database did not respond in time; try again.';
    overdue.forEach(({ reject }) =>
      reject(new ApiError('unavailable', message, { because: 'database_slow' })),
    );
  }
}
