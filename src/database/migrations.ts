import { MigrationExecutor, type QueryRunner } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { OperatorError } from '../errors/operator-error.js';
import { administer } from './database.js';

/**
 * The advisory lock under which migrations run (PostgreSQL, section 13.3.5), so that several instances starting
 * at once apply each migration once. The number is arbitrary and must never change.
 */
const MIGRATION_LOCK = 7_236_102_511;

/**
 * Milliseconds that a migration may wait for a table, with all requests that need the table behind it: a dump, for
 * instance, may hold one for long.
 */
const TABLE_LOCK_TIMEOUT = 3_000;

/**
 * Applies what is pending, in one transaction.
 *
 * @returns the names of what was applied.
 * @throws OperatorError where the database at `url` cannot be used.
 */
export async function runMigrations(url: string): Promise<string[]> {
  return underLock(url, async (executor) => {
    const applied = await executor.executePendingMigrations();
    return applied.map(({ name }) => name);
  });
}

/**
 * Undoes the migration applied last.
 *
 * @returns its name, or `undefined` where none is applied.
 * @throws OperatorError where the database at `url` cannot be used, and where this code does not have the migration.
 */
export async function revertMigration(url: string): Promise<string | undefined> {
  return underLock(url, async (executor) => {
    const [last] = await executor.getExecutedMigrations();
    if (last === undefined) {
      return undefined;
    }
    if (!MIGRATION_NAMES.includes(last.name)) {
      throw new OperatorError(
        `${last.name}, applied last, is no migration of this version: revert it with the one that has it.`,
      );
    }
    await executor.undoLastMigration();
    return last.name;
  });
}

/**
 * @throws OperatorError where the tables are in another schema than the one in which new ones would be made: TypeORM looks
 *   for its own in that one alone, and would make a second, empty store there.
 */
async function requireOneSchema(session: QueryRunner): Promise<void> {
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

async function underLock<T>(
  url: string,
  work: (executor: MigrationExecutor) => Promise<T>,
): Promise<T> {
  // The lock is the session's, and ends with it.
  return administer(url, async (dataSource) => {
    const session = dataSource.createQueryRunner();
    await requireOneSchema(session);
    const [lock] = await session.query('select pg_try_advisory_lock($1) as "isOurs"', [
      MIGRATION_LOCK,
    ]);
    if (!lock.isOurs) {
      console.error('Another process migrates this database; this one waits for it.');
      await session.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    }
    await session.query(`set lock_timeout = '${TABLE_LOCK_TIMEOUT}ms'`);
    const executor = new MigrationExecutor(dataSource, session);
    executor.transaction = 'all';
    return work(executor);
  });
}
