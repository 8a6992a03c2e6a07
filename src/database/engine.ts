import type { DataSource } from 'typeorm';
import { OperatorError } from '../errors/operator-error.js';

/** What the database is: PostgreSQL itself, or PostgreSQL with the extension citus. */
export type Engine = 'postgresql' | 'citus';

export const ENGINE = Symbol('engine');

/** @throws OperatorError if it is a worker of Citus: each node has its own sequences and advisory locks. */
export async function engineOf(dataSource: Pick<DataSource, 'query'>): Promise<Engine> {
  const [{ is_citus: isCitus }] = await dataSource.query<[{ is_citus: boolean }]>(
    `select to_regclass('pg_dist_local_group') is not null as is_citus`,
  );
  if (!isCitus) {
    return 'postgresql';
  }
  const [{ groupid }] = await dataSource.query<[{ groupid: number }]>(
    'select groupid from pg_dist_local_group',
  );
  if (groupid !== 0) {
    const fault = 'The server of DATABASE_URL is a worker of Citus.';
    throw new OperatorError(`${fault} Set DATABASE_URL to the coordinator.`);
  }
  return 'citus';
}
