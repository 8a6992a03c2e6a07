import { setTimeout as wait } from 'node:timers/promises';
import type { DataSource, QueryRunner } from 'typeorm';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';

/**
 * How a command waits for tables that other sessions lock. Requests for such a table queue behind the command, and fail
 * after 750 ms. The command may wait for two tables, one after the other. Between two attempts, requests proceed.
 */
export const TABLE_LOCK = {
  /** Milliseconds that an attempt waits for a table. */
  timeout: 300,
  attempts: 15,
  /** Milliseconds between two attempts. */
  pause: 300,
} as const;

/** Milliseconds that a statement outside a transaction waits for a table, or for transactions that use it. */
export const PATIENCE = 600_000;

/** SQLSTATE of a statement that waited for a lock longer than `lock_timeout`. */
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Calls `work` in a new transaction without a statement time-out. If a lock is not available, the transaction is rolled
 * back and tried again, as {@link TABLE_LOCK} says.
 *
 * @throws OperatorError that names the lock and the sessions that block it.
 */
export async function inTransaction<T>(
  dataSource: DataSource,
  work: (session: QueryRunner) => Promise<T>,
): Promise<T> {
  const { timeout, attempts, pause } = TABLE_LOCK;
  let noted = '';
  for (let attempt = 1; ; attempt += 1) {
    const session = dataSource.createQueryRunner();
    let wanted = 'A lock';
    let blockers = ['sessions that have ended'];
    try {
      // At a stricter isolation level, the snapshot would be older than the locks. It would not show what their
      // previous holders committed.
      await session.startTransaction('READ COMMITTED');
      // The role may have a time-out that is meant for requests.
      await session.query(
        `set local statement_timeout = 0; set local lock_timeout = '${timeout}ms'`,
      );
      const result = await watched(
        dataSource,
        session,
        () => work(session),
        (lock, found) => {
          [wanted, blockers] = [lock, found];
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
      if (attempt === attempts) {
        const message = [
          `Nothing was changed. ${wanted} was not available for ${timeout} ms in each of ${attempts} attempts. It is blocked, by:`,
          ...blockers.map((blocker) => `  ${blocker}`),
          'Wait until these sessions end, or end them with pg_terminate_backend(pid). Then run the command again.',
        ];
        throw new OperatorError(message.join('\n'), { cause: error });
      }
    } finally {
      await session.release();
    }
    const note = `${wanted} is blocked by ${blockers.join('; ')}. Tries again, up to ${attempts} times.`;
    if (note !== noted) {
      noted = note;
      console.error(note);
    }
    await wait(pause);
  }
}

/**
 * Calls `work` in a session outside a transaction. `create index concurrently` waits for every transaction that uses its
 * table, but blocks none. So it may wait as long as {@link PATIENCE}, and prints the sessions that it waits for.
 * Settings and advisory locks end with `work`.
 *
 * @throws OperatorError that says what a failed statement has left behind.
 */
export async function outsideTransaction<T>(
  dataSource: DataSource,
  work: (session: QueryRunner) => Promise<T>,
): Promise<T> {
  const session = dataSource.createQueryRunner();
  let noted = '';
  try {
    await session.query(`set statement_timeout = 0; set lock_timeout = '${PATIENCE}ms'`);
    return await watched(
      dataSource,
      session,
      () => work(session),
      (_lock, blockers) => {
        if (blockers.join('; ') !== noted) {
          noted = blockers.join('; ');
          console.error(`Waits for ${noted}.`);
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
  const lines = [message, 'This ran outside a transaction: completed steps stay applied.'];
  if (invalid.length > 0) {
    lines.push(
      'An index is invalid: it slows writes down and serves no statement. Drop it, then run the command again:',
      ...invalid.map(({ index }) => `  drop index concurrently ${index};`),
    );
  }
  return lines.join('\n');
}

/** Milliseconds between two queries for the sessions that a session waits for. */
const LOOK_EVERY = 60;

/** The lock that session `$1` waits for, and the sessions that block it. A role sees only some columns of others. */
const BLOCKERS = `
  select (select upper(regexp_replace(mode, '([a-z])([A-Z])', '\\1 \\2', 'g')) || ' on ' || relation::regclass
            from pg_locks where pid = $1 and not granted and relation is not null limit 1) as lock,
         concat_ws(', ', 'pid ' || pid, coalesce(nullif(application_name, ''), 'no application_name'), state,
                   coalesce('query since ' || to_char(query_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                            'query start hidden from this role')) as blocker
    from pg_stat_activity
   where pid = any (pg_blocking_pids($1))
   order by pid`;

/** Calls `work`. Meanwhile, notes which lock `session` waits for, and who blocks it. Uses a second connection. */
async function watched<T>(
  dataSource: DataSource,
  session: QueryRunner,
  work: () => Promise<T>,
  note: (lock: string, blockers: string[]) => void,
): Promise<T> {
  const [{ pid }] = await session.query('select pg_backend_pid() as pid');
  const look = async () => {
    const rows: { lock: string | null; blocker: string }[] = await dataSource.query(BLOCKERS, [
      pid,
    ]);
    if (rows.length > 0) {
      note(
        rows[0]!.lock ?? 'A lock',
        rows.map(({ blocker }) => blocker),
      );
    }
  };
  const looking = setInterval(() => void look().catch(() => {}), LOOK_EVERY);
  try {
    return await work();
  } finally {
    clearInterval(looking);
  }
}
