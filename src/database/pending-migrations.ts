import type { Pool } from 'pg';
import { migrations } from '../../migrations/index.js';
import type { Environment } from '../config/environment.js';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { administer } from './database.js';

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
  const { runMigrations } = await import('./migrations.js');
  await runMigrations(url);
}

/** @returns the names of the migrations that this code has and the database has not, oldest first. */
export async function pendingMigrations(pool: Pool): Promise<string[]> {
  const applied = await appliedMigrations(pool);
  return knownMigrations().filter((name) => !applied.has(name));
}

/** @returns the names of all migrations of this code, oldest first. */
export function knownMigrations(): string[] {
  return migrations.map(({ name }) => name);
}

/** @returns the names of the migrations that the database has, of this code or not. */
export async function appliedMigrations(pool: Pool): Promise<Set<string>> {
  try {
    const { rows } = await pool.query<{ name: string }>('select name from migrations');
    return new Set(rows.map(({ name }) => name));
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) {
      return new Set();
    }
    throw error;
  }
}
