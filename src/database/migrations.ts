import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { poolOf } from './pool.js';

/**
 * The advisory lock under which migrations run (PostgreSQL, section 13.3.5), so that several instances starting
 * at once apply each migration once. The number is arbitrary and must never change.
 */
const MIGRATION_LOCK = 7_236_102_511;

/** SQLSTATE of a query to a table that is not there. */
const UNDEFINED_TABLE = '42P01';

/**
 * Makes sure that the schema is this code's: applies what is pending to an embedded database, and to another one
 * where `MIGRATE_ON_START` says so.
 *
 * @throws OperatorError where migrations stay pending.
 */
export async function requireMigrated(
  dataSource: DataSource,
  { DATABASE_URL, MIGRATE_ON_START }: Environment,
): Promise<void> {
  if (DATABASE_URL === undefined || MIGRATE_ON_START) {
    await runMigrations(dataSource);
  }
  const pending = await pendingMigrations(dataSource);
  if (pending.length > 0) {
    throw new OperatorError(
      `The database has pending migrations: ${pending.join(', ')}.\n` +
        'Apply them with npm run migration:run, or start with MIGRATE_ON_START=true.',
    );
  }
}

/** @returns the names of the migrations that this code has and the database has not, oldest first. */
export async function pendingMigrations(dataSource: DataSource): Promise<string[]> {
  const applied = await appliedMigrations(dataSource);
  return knownMigrations(dataSource).filter((name) => !applied.has(name));
}

/** @returns the names of all migrations of this code, oldest first. */
export function knownMigrations(dataSource: DataSource): string[] {
  return dataSource.migrations
    .map(({ name, constructor }) => name ?? constructor.name)
    .toSorted((a, b) => a.slice(-13).localeCompare(b.slice(-13)));
}

async function appliedMigrations(dataSource: DataSource): Promise<Set<string>> {
  try {
    // Past TypeORM, which would give a connection back to the pool whose query ran out of time.
    const { rows } = await poolOf(dataSource).query<{ name: string }>(
      'select name from migrations',
    );
    return new Set(rows.map(({ name }) => name));
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) {
      return new Set();
    }
    throw error;
  }
}

/** Applies what is pending, in one transaction. @returns the names of what was applied. */
export async function runMigrations(dataSource: DataSource): Promise<string[]> {
  return underLock(dataSource, async () => {
    const applied = await dataSource.runMigrations({ transaction: 'all' });
    return applied.map(({ name }) => name);
  });
}

/** Undoes the migration applied last. @returns its name, or `undefined` where none is applied. */
export async function revertMigration(dataSource: DataSource): Promise<string | undefined> {
  return underLock(dataSource, async () => {
    const applied = await appliedMigrations(dataSource);
    const last = knownMigrations(dataSource).findLast((name) => applied.has(name));
    if (last !== undefined) {
      await dataSource.undoLastMigration({ transaction: 'all' });
    }
    return last;
  });
}

async function underLock<T>(dataSource: DataSource, work: () => Promise<T>): Promise<T> {
  const session = dataSource.createQueryRunner();
  try {
    await session.query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    try {
      return await work();
    } finally {
      await session.query('select pg_advisory_unlock($1)', [MIGRATION_LOCK]);
    }
  } finally {
    await session.release();
  }
}
