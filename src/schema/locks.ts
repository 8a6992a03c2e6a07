import { setTimeout as pause } from 'node:timers/promises';
import type { DataSource, QueryRunner } from 'typeorm';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';

/** The advisory lock under which migrations run (PostgreSQL, section 13.3.5). The number must never change. Requests lock pairs of integers, which are in another space. */
export const MIGRATION_LOCK = 7_236_102_511;

/** The statements around a migration. They override the limits that the role has for requests. */
export interface Frame {
  open: readonly string[];
  /** Takes the advisory lock if it is free. */
  lock: string;
  close: readonly string[];
}

/** Requests queue behind a migration that waits for their table, and fail after 750 ms. It may wait for two tables. */
export const TRANSACTION: Frame = {
  open: [
    'begin isolation level read committed',
    'set local statement_timeout = 0',
    `set local lock_timeout = '300ms'`,
  ],
  lock: `pg_try_advisory_xact_lock(${MIGRATION_LOCK})`,
  close: ['commit'],
};

/** `create index concurrently` waits for every transaction that uses its table, but blocks none. */
export const NO_TRANSACTION: Frame = {
  open: ['set statement_timeout = 0', `set lock_timeout = '10min'`],
  lock: `pg_try_advisory_lock(${MIGRATION_LOCK})`,
  close: [
    'reset statement_timeout',
    'reset lock_timeout',
    `do $$ begin perform pg_advisory_unlock(${MIGRATION_LOCK}); end $$`,
  ],
};

/** How often a transaction is tried if a table is locked. Between two attempts, requests proceed. */
const ATTEMPTS = 15;

/** Milliseconds: between two attempts of a transaction, to get the advisory lock, and to find out who blocks. */
const PAUSES = { transaction: 300, advisoryLock: 100, look: 60 };

/**
 * Calls `work` in a frame, under the advisory lock. A transaction that waits too long for a table is tried again.
 *
 * @throws OperatorError in the end, which names the lock and the sessions that block it, or if there is a pooler.
 */
export async function underLock<T>(
  dataSource: DataSource,
  frame: Frame,
  work: (session: QueryRunner) => Promise<T>,
): Promise<T> {
  let obstacle = 'A lock is blocked by sessions that have ended';
  const look = async (pid: number) => {
    const [found] = await dataSource.query(OBSTACLE, [pid]).catch(() => []);
    if (found !== undefined && found.obstacle !== obstacle) {
      obstacle = found.obstacle;
      console.error(`Waits: ${obstacle}.`);
    }
  };
  for (let attempt = 1; ; attempt += 1) {
    const session = dataSource.createQueryRunner();
    let looking: NodeJS.Timeout | undefined;
    try {
      const { processID } = await session.connect();
      const [{ pid }] = await session.query('select pg_backend_pid() as pid');
      // A pooler reports a process id of its own. Its next client would get the settings and locks of the migration.
      if (pid !== processID) {
        throw new OperatorError(
          'Nothing was changed: migrations do not run through a pooler. ' +
            "Set DATABASE_URL to PostgreSQL's own address for this command.",
        );
      }
      await runAll(session, frame.open);
      await takeLock(session, frame.lock);
      looking = setInterval(() => void look(pid), PAUSES.look);
      const result = await work(session);
      await runAll(session, frame.close);
      return result;
    } catch (error) {
      // If the connection is lost, PostgreSQL has undone it.
      await runAll(session, frame === TRANSACTION ? ['rollback'] : frame.close).catch(() => {});
      // 55P03: a statement waited for a lock longer than `lock_timeout`.
      if (frame !== TRANSACTION || sqlState(error) !== '55P03') {
        throw error;
      }
      if (attempt === ATTEMPTS) {
        const message =
          `Nothing was changed. In each of ${ATTEMPTS} attempts of 300 ms, ${obstacle}.\n` +
          'Wait until these sessions end, or end them with pg_terminate_backend(pid). Then run the command again.';
        throw new OperatorError(message, { cause: error });
      }
    } finally {
      clearInterval(looking);
      await session.release();
    }
    await pause(PAUSES.transaction);
  }
}

export async function runAll(session: QueryRunner, statements: readonly string[]): Promise<void> {
  for (const statement of statements) {
    await session.query(statement);
  }
}

/** Does not wait inside a statement, for whose snapshot a `create index concurrently` of the other process would wait. */
async function takeLock(session: QueryRunner, lock: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const [{ isOurs }] = await session.query(`select ${lock} as "isOurs"`);
    if (isOurs) {
      return;
    }
    if (attempt === 1) {
      console.error('Another process migrates this database; this one waits for it.');
    }
    await pause(PAUSES.advisoryLock);
  }
}

/** What session `$1` waits for, and the sessions that block it. A role sees only some columns of others. */
const OBSTACLE = `
  select coalesce((select upper(regexp_replace(replace(mode, 'Lock', ''), '([a-z])([A-Z])', '\\1 \\2', 'g')) || ' on ' || relation::regclass
                     from pg_locks where pid = $1 and not granted and relation is not null limit 1), 'A lock')
         || ' is blocked by ' ||
         string_agg(concat_ws(', ', 'pid ' || pid, coalesce(nullif(application_name, ''), 'no application_name'), state,
                    coalesce('query since ' || to_char(query_start at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
                             'query start hidden from this role')), '; ' order by pid) as obstacle
    from pg_stat_activity
   where pid = any (pg_blocking_pids($1))
  having count(*) > 0`;
