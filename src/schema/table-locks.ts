import { setTimeout as wait } from 'node:timers/promises';
import type { DataSource, QueryRunner } from 'typeorm';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';

/**
 * How a command waits for tables that other sessions lock. Requests for such a table queue behind the command. So an
 * attempt is shorter than their `statement_timeout`, and they can use the table between two attempts.
 */
export const TABLE_LOCK = {
  /** Milliseconds that an attempt waits for a table. */
  timeout: 1_000,
  attempts: 5,
  /** Milliseconds between two attempts. */
  pause: 1_000,
} as const;

/** SQLSTATE of a statement that waited for a lock longer than `lock_timeout`. */
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Calls `work` in a new transaction without a statement time-out. {@link TABLE_LOCK} says how long the transaction
 * waits for a locked table. If the lock is not available, the transaction is rolled back and tried again after a pause.
 * The settings end with the transaction.
 *
 * @throws OperatorError that names the sessions that hold a lock for too long.
 */
export async function inTransaction<T>(
  dataSource: DataSource,
  work: (session: QueryRunner) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const session = dataSource.createQueryRunner();
    let blockers: string[] = [];
    try {
      // At a stricter isolation level, the snapshot would be older than the locks. It would not show what their
      // previous holders committed.
      await session.startTransaction('READ COMMITTED');
      // The role may have a time-out that is meant for requests.
      await session.query('set local statement_timeout = 0');
      await session.query(`set local lock_timeout = '${TABLE_LOCK.timeout}ms'`);
      const result = await watched(
        dataSource,
        session,
        () => work(session),
        (found) => {
          blockers = found;
        },
      );
      await session.commitTransaction();
      return result;
    } catch (error) {
      // If the connection is lost, PostgreSQL has rolled back.
      await session.rollbackTransaction().catch(() => {});
      if (sqlState(error) !== LOCK_NOT_AVAILABLE) {
        throw error;
      }
      if (attempt === TABLE_LOCK.attempts) {
        throw new OperatorError(lockTimeout(blockers), { cause: error });
      }
    } finally {
      await session.release();
    }
    console.error(
      `Attempt ${attempt} of ${TABLE_LOCK.attempts}: a table is locked by ${blockers.join('; ') || 'another session'}.`,
    );
    await wait(TABLE_LOCK.pause);
  }
}

/** Milliseconds that a statement outside a transaction waits for a table, or for transactions that use it. */
export const PATIENCE = 600_000;

/**
 * Calls `work` in a session outside a transaction. `create index concurrently` waits for every transaction that uses
 * its table, but blocks none. So it may wait as long as {@link PATIENCE}, and prints the sessions that it waits for.
 * Settings and advisory locks end with `work`.
 *
 * @throws OperatorError that says what a failed statement has left behind.
 */
export async function outsideTransaction<T>(
  dataSource: DataSource,
  work: (session: QueryRunner) => Promise<T>,
): Promise<T> {
  const session = dataSource.createQueryRunner();
  let blockers = '';
  try {
    await session.query(`set statement_timeout = 0; set lock_timeout = '${PATIENCE}ms'`);
    return await watched(
      dataSource,
      session,
      () => work(session),
      (found) => {
        if (found.join('; ') !== blockers) {
          blockers = found.join('; ');
          console.error(`Waits for ${blockers}.`);
        }
      },
    );
  } catch (error) {
    throw new OperatorError(await whatIsLeft(dataSource, error as Error), { cause: error });
  } finally {
    // If the connection is lost, its settings and locks are gone.
    await session
      .query('reset statement_timeout; reset lock_timeout; select pg_advisory_unlock_all()')
      .catch(() => {});
    await session.release();
  }
}

async function whatIsLeft(dataSource: DataSource, { message }: Error): Promise<string> {
  const invalid = await dataSource
    .query<{ index: string }[]>(
      `select indexrelid::regclass::text as index
         from pg_index join pg_class on pg_class.oid = indexrelid
        where not indisvalid and relnamespace = current_schema()::regnamespace
        order by 1`,
    )
    .catch(() => []);
  const drops = invalid.map(({ index }) => `\n  drop index concurrently ${index};`);
  return [
    message,
    'This ran outside a transaction: completed steps stay applied.',
    drops.length === 0
      ? []
      : `An index is invalid: it slows writes down and serves no statement. Drop it, then run the command again:${drops.join('')}`,
  ]
    .flat()
    .join('\n');
}

/** Milliseconds between two queries for the sessions that a session waits for. */
const LOOK_EVERY = TABLE_LOCK.timeout / 5;

/**
 * Calls `work`. Meanwhile, queries on a second connection which sessions `session` waits for, and passes them to
 * `note`.
 */
async function watched<T>(
  dataSource: DataSource,
  session: QueryRunner,
  work: () => Promise<T>,
  note: (blockers: string[]) => void,
): Promise<T> {
  const [{ pid }] = await session.query('select pg_backend_pid() as pid');
  const look = async () => {
    const found = await dataSource.query<Blocker[]>(
      `select pid, application_name as application, state, query_start as "queryStart"
         from pg_stat_activity
        where pid = any (pg_blocking_pids($1))
        order by pid`,
      [pid],
    );
    if (found.length > 0) {
      note(found.map(describe));
    }
  };
  const looking = setInterval(() => void look().catch(() => {}), LOOK_EVERY);
  try {
    return await work();
  } finally {
    clearInterval(looking);
  }
}

/** A session that another one waits for. Columns that the role may not see are null. */
interface Blocker {
  pid: number;
  application: string;
  state: string | null;
  queryStart: Date | null;
}

function describe({ pid, application, state, queryStart }: Blocker): string {
  return [
    `pid ${pid}`,
    application === '' ? 'no application_name' : application,
    state ?? [],
    queryStart === null
      ? 'query start hidden from this role'
      : `query since ${queryStart.toISOString()}`,
  ]
    .flat()
    .join(', ');
}

function lockTimeout(blockers: string[]): string {
  const holders = blockers.length === 0 ? ['sessions that have ended'] : blockers;
  return [
    `Nothing was changed. A table was locked for ${TABLE_LOCK.timeout / 1000} s in each of ${TABLE_LOCK.attempts} attempts, by:`,
    ...holders.map((holder) => `  ${holder}`),
    'Wait until these sessions end, or end them with pg_terminate_backend(pid). Then run the command again.',
  ].join('\n');
}
