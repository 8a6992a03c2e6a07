import type { Environment } from '../config/environment.js';
import { OperatorError } from '../errors/operator-error.js';
import { pendingMigrations } from './bookkeeping.js';
import { administer } from '../database/database.js';
import { runMigrations } from './migrations.js';

/**
 * Makes sure that the schema is this code's. Applies pending migrations to an embedded database, and to any other one
 * if `MIGRATE_ON_START` is true and there is no pooler.
 *
 * @throws OperatorError if the database at `url` cannot be used, or if migrations stay pending.
 */
export async function requireMigrated(
  url: string,
  { DATABASE_URL, DATABASE_POOLER, MIGRATE_ON_START }: Environment,
): Promise<void> {
  const pending = await administer(url, pendingMigrations);
  if (pending.length === 0) {
    return;
  }
  const isPooled = DATABASE_POOLER !== undefined;
  if (DATABASE_URL !== undefined && (!MIGRATE_ON_START || isPooled)) {
    throw new OperatorError(
      `The database has pending migrations: ${pending.join(', ')}.\n` +
        `Apply them with npm run migration:run, ${isPooled ? 'without the pooler' : 'or start with MIGRATE_ON_START=true'}.`,
    );
  }
  await runMigrations(url);
}
