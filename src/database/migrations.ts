import type { DataSource } from 'typeorm';
import { appliedMigrations, knownMigrations } from './pending-migrations.js';
import { dataSourceOf } from './data-source.js';
import { administer, usable } from './database.js';

/**
 * The advisory lock under which migrations run (PostgreSQL, section 13.3.5), so that several instances starting
 * at once apply each migration once. The number is arbitrary and must never change.
 */
const MIGRATION_LOCK = 7_236_102_511;

/**
 * Applies what is pending, in one transaction.
 *
 * @returns the names of what was applied.
 * @throws OperatorError where the database at `url` cannot be used.
 */
export async function runMigrations(url: string): Promise<string[]> {
  return underLock(url, async (dataSource) => {
    const applied = await dataSource.runMigrations({ transaction: 'all' });
    return applied.map(({ name }) => name);
  });
}

/**
 * Undoes the migration applied last.
 *
 * @returns its name, or `undefined` where none is applied.
 * @throws OperatorError where the database at `url` cannot be used.
 */
export async function revertMigration(url: string): Promise<string | undefined> {
  return underLock(url, async (dataSource) => {
    const applied = await administer(url, appliedMigrations);
    const last = knownMigrations().findLast((name) => applied.has(name));
    if (last !== undefined) {
      await dataSource.undoLastMigration({ transaction: 'all' });
    }
    return last;
  });
}

async function underLock<T>(url: string, work: (dataSource: DataSource) => Promise<T>): Promise<T> {
  const dataSource = await usable(() => dataSourceOf(url).initialize());
  try {
    await dataSource.createQueryRunner().query('select pg_advisory_lock($1)', [MIGRATION_LOCK]);
    return await work(dataSource);
  } finally {
    // The lock is the session's, and ends with it.
    await dataSource.destroy();
  }
}
