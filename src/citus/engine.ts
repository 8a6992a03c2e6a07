import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import type { Engine } from '../database/data-source.js';
import { OperatorError } from '../errors/operator-error.js';
import { CITUS_FORMS, CITUS_SETTINGS, isCitus, requireNoStandbys } from './citus.js';

/**
 * @returns what differs from PostgreSQL if the database is Citus.
 * @throws OperatorError if the service cannot use this node or this configuration.
 */
export async function engineOf(dataSource: DataSource, environment: Environment): Promise<Engine> {
  await requireCoordinator(dataSource);
  if (!(await isCitus(dataSource))) {
    return {};
  }
  requireNoStandbys(environment);
  return { settings: CITUS_SETTINGS, forms: CITUS_FORMS };
}

/**
 * Citus numbers its nodes. The coordinator is 0.
 *
 * @throws OperatorError if the database is on a worker. Each node has its own sequences and advisory locks, so all
 *   processes must use the same node.
 */
async function requireCoordinator(dataSource: DataSource): Promise<void> {
  const [{ exists }] = await dataSource.query(
    `select to_regclass('pg_dist_local_group') is not null as exists`,
  );
  const [node] = exists ? await dataSource.query('select groupid from pg_dist_local_group') : [];
  if (node !== undefined && node.groupid !== 0) {
    throw new OperatorError(
      'The server of DATABASE_URL is a worker of Citus. Set DATABASE_URL to the coordinator.',
    );
  }
}
