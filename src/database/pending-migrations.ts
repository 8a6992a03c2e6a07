import type { DataSource } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import type { Environment } from '../config/environment.js';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { administer } from './database.js';
import { runMigrations } from './migrations.js';

/** SQLSTATE of a query to a table that is not there. */
const UNDEFINED_TABLE = '42P01';

/**
 * Makes sure that the schema is this code's: applies what is pending to an embedded database, and to another one
 * where `MIGRATE_ON_START` says so.
 *
 * @throws OperatorError where the database at `url` cannot be used, and where migrations stay pending.
 */
export async function requireMigrated(
  url: string,
  { DATABASE_URL, MIGRATE_ON_START }: Environment,
): Promise<void> {
  const pending = await administer(url, pendingMigrations);
  if (pending.length === 0) {
    return;
  }
  if (DATABASE_URL !== undefined && !MIGRATE_ON_START) {
    throw new OperatorError(
      `The database has pending migrations: ${pending.join(', ')}.\n` +
        'Apply them with npm run migration:run, or start with MIGRATE_ON_START=true.',
    );
  }
  await runMigrations(url);
}

/** @returns the names of the migrations that this code has and the database has not, oldest first. */
export async function pendingMigrations(dataSource: DataSource): Promise<string[]> {
  const applied = await appliedMigrations(dataSource);
  return MIGRATION_NAMES.filter((name) => !applied.has(name));
}

/** @returns the names of all migrations that the database has, those of later versions among them. */
export async function appliedMigrations(dataSource: DataSource): Promise<Set<string>> {
  try {
    const rows = await dataSource.query<{ name: string }[]>('select name from migrations');
    return new Set(rows.map(({ name }) => name));
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) {
      return new Set();
    }
    throw error;
  }
}
