import { setTimeout as wait } from 'node:timers/promises';
import { type DataSource, MigrationExecutor, type QueryRunner } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import { VERSION } from '../config/project-root.js';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { missingBookkeeping } from './bookkeeping.js';
import { administer } from './database.js';

/**
 * The advisory lock under which migrations run (PostgreSQL, section 13.3.5), so that several instances starting
 * at once apply each migration once. The number is arbitrary and must never change.
 */
export const MIGRATION_LOCK = 7_236_102_511;

/**
 * How migrations wait for tables that others use. Requests that need such a table wait behind the migration, so an attempt
 * is shorter than their `statement_timeout`, and they have the table for themselves in between.
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
 * Applies what is pending, in one transaction.
 *
 * @returns the names of what was applied.
 * @throws OperatorError if the database at `url` cannot be used, and if others hold a table for too long.
 */
export async function runMigrations(url: string): Promise<string[]> {
  return underLock(url, async (executor, session) => {
    if ((await executor.getPendingMigrations()).length === 0) {
      return [];
    }
    for (const statement of await missingBookkeeping(session)) {
      await session.query(statement);
    }
    const applied = await executor.executePendingMigrations();
    const names = applied.map(({ name }) => name);
    await session.query('update migrations set version = $1 where name = any ($2)', [
      VERSION,
      names,
    ]);
    return names;
  });
}

/**
 * Undoes the migration applied last.
 *
 * @param expected its name, if whoever asks for it knows.
 * @returns its name, or `undefined` if none is applied.
 * @throws OperatorError if the database at `url` cannot be used, if this code does not have the migration, if it is not
 *   the expected one, and if others hold a table for too long.
 */
export async function revertMigration(url: string, expected?: string): Promise<string | undefined> {
  return underLock(url, async (executor) => {
    const [last] = await executor.getExecutedMigrations();
    if (expected !== undefined && last?.name !== expected) {
      throw new OperatorError(
        `Nothing was reverted: ${expected} is no longer the migration applied last.`,
      );
    }
    if (last === undefined) {
      return undefined;
    }
    migrationOf(last.name);
    await executor.undoLastMigration();
    return last.name;
  });
}

/**
 * @returns the migration applied last, or `undefined` if none is applied.
 * @throws OperatorError if this code does not have it, and as {@link requireOneSchema}.
 */
export async function lastMigration(dataSource: DataSource): Promise<Migration | undefined> {
  await requireOneSchema(dataSource);
  const [last] = await new MigrationExecutor(dataSource).getExecutedMigrations();
  return last && migrationOf(last.name);
}

/** @throws OperatorError if this code does not have it. */
function migrationOf(name: string): Migration {
  const Found = migrations.find((it) => it.name === name);
  if (Found === undefined) {
    throw new OperatorError(
      `${name}, applied last, is no migration of this version: revert it with the one that has it.`,
    );
  }
  return new Found();
}

/** The rows that reverting `migration` would delete, by table, as of now. */
export async function rowsLostWith(
  { drops }: Migration,
  dataSource: DataSource,
): Promise<Map<string, string>> {
  return dataSource.transaction(async (session) => {
    await session.query(`set local lock_timeout = '${TABLE_LOCK.timeout}ms'`);
    await session.query('set local statement_timeout = 0');
    const rows = new Map<string, string>();
    for (const table of drops) {
      const [{ count }] = await session.query(`select count(*) from ${table}`);
      rows.set(table, count);
    }
    return rows;
  });
}

/**
 * @throws OperatorError where the tables are in another schema than the one in which new ones would be made: TypeORM looks
 *   for its own in that one alone, and would make a second, empty store there.
 */
export async function requireOneSchema(session: DataSource | QueryRunner): Promise<void> {
  const [other] = await session.query(
    `select nspname as found, current_schema() as current
       from pg_class
       join pg_namespace on pg_namespace.oid = relnamespace
      where pg_class.oid = to_regclass('migrations') and nspname <> current_schema()`,
  );
  if (other !== undefined) {
    throw new OperatorError(
      `The tables are in the schema ${other.found}, and migrations would make theirs in ${other.current}, ` +
        `which is first in the role's search_path: alter role … set search_path = ${other.found}.`,
    );
  }
}

/**
 * Calls `work` in a transaction that has the advisory lock; again after a pause while others hold its tables.
 *
 * Lock and settings are the transaction's. A pooler would give a session that kept them to the next client.
 */
async function underLock<T>(
  url: string,
  work: (executor: MigrationExecutor, session: QueryRunner) => Promise<T>,
): Promise<T> {
  return administer(url, async (dataSource) => {
    for (let attempt = 1; ; attempt += 1) {
      const session = dataSource.createQueryRunner();
      let blockers: Blocker[] = [];
      try {
        // Of another isolation level, the snapshot would be older than the lock, and than what its last holder did.
        await session.startTransaction('READ COMMITTED');
        // The role may have a limit that is right for requests.
        await session.query('set local statement_timeout = 0');
        await requireOneSchema(session);
        await takeLock(session);
        await session.query(`set local lock_timeout = '${TABLE_LOCK.timeout}ms'`);
        const executor = new MigrationExecutor(dataSource, session);
        const result = await watched(
          dataSource,
          session,
          () => work(executor, session),
          (found) => {
            blockers = found;
          },
        );
        await session.commitTransaction();
        return result;
      } catch (error) {
        // A connection that is gone has rolled back by itself.
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
        `Attempt ${attempt} of ${TABLE_LOCK.attempts}: a table is locked by ${blockers.map(describe).join('; ') || 'another session'}.`,
      );
      await wait(TABLE_LOCK.pause);
    }
  });
}

async function takeLock(session: QueryRunner): Promise<void> {
  const [lock] = await session.query('select pg_try_advisory_xact_lock($1) as "isOurs"', [
    MIGRATION_LOCK,
  ]);
  if (!lock.isOurs) {
    console.error('Another process migrates this database; this one waits for it.');
    await session.query('set local lock_timeout = 0');
    await session.query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
  }
}

/** A session that another one waits for. What its role may not see is null. */
interface Blocker {
  pid: number;
  application: string;
  state: string | null;
  queryStart: Date | null;
}

/** Milliseconds between two looks at whom a migration waits for. */
const LOOK_EVERY = TABLE_LOCK.timeout / 5;

/** Calls `work`, and tells `note` on a second connection whom `session` waits for meanwhile. */
async function watched<T>(
  dataSource: DataSource,
  session: QueryRunner,
  work: () => Promise<T>,
  note: (blockers: Blocker[]) => void,
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
      note(found);
    }
  };
  const looking = setInterval(() => void look().catch(() => {}), LOOK_EVERY);
  try {
    return await work();
  } finally {
    clearInterval(looking);
  }
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

function lockTimeout(blockers: Blocker[]): string {
  const holders =
    blockers.length === 0
      ? ['  sessions that have ended']
      : blockers.map((it) => `  ${describe(it)}`);
  return [
    `Nothing was changed. A table was locked for ${TABLE_LOCK.timeout / 1000} s in each of ${TABLE_LOCK.attempts} attempts, by:`,
    ...holders,
    'Wait until these sessions end, or end them with pg_terminate_backend(pid). Then run the command again.',
  ].join('\n');
}
