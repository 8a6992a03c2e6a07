import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import type { Engine } from '../database/data-source.js';
import { OperatorError } from '../errors/operator-error.js';
import { CITUS_FORMS } from './citus.js';

/** Citus plans each call: it has no generic plan for a range or an array of the distribution column. */
export const CITUS_SETTINGS = { plan_cache_mode: 'auto' };

/**
 * @returns what differs from PostgreSQL if the database is Citus.
 * @throws OperatorError if the node is a worker, or if there are standbys. Each node has its own sequences and advisory
 *   locks, so all processes must use the coordinator, which is node 0.
 */
export async function engineOf(
  dataSource: DataSource,
  { DATABASE_READ_URL }: Environment,
): Promise<Engine> {
  const [{ is_citus }] = await dataSource.query(
    `select to_regclass('pg_dist_local_group') is not null as is_citus`,
  );
  if (!is_citus) {
    return {};
  }
  const [{ groupid }] = await dataSource.query('select groupid from pg_dist_local_group');
  if (groupid !== 0) {
    throw new OperatorError(
      'The server of DATABASE_URL is a worker of Citus. Set DATABASE_URL to the coordinator.',
    );
  }
  if (DATABASE_READ_URL !== undefined) {
    throw new OperatorError(
      'The database of DATABASE_URL has the extension citus, so DATABASE_READ_URL must not be set: ' +
        'a standby of the coordinator reads the pets on the workers, and does not show whether those are up to date.',
    );
  }
  return { settings: CITUS_SETTINGS, forms: CITUS_FORMS };
}
