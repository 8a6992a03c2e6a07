import type { Abstract, Provider, Type } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import type { PoolClient } from 'pg';
import type { DataSource } from 'typeorm';
import { OperatorError } from '../errors/operator-error.js';

/** What the database is: PostgreSQL itself, or PostgreSQL with the extension citus. */
export type Engine = 'postgresql' | 'citus';

export const ENGINE = Symbol('engine');

/** @throws OperatorError if it is a worker of Citus: each node has its own sequences and advisory locks. */
export async function engineOf(dataSource: DataSource): Promise<Engine> {
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

/** Whether Citus distributes the pets. It puts this trigger on each table that it distributes. */
export const IS_DISTRIBUTED = `
  select exists (select from pg_trigger
                  where tgrelid = to_regclass('pets') and tgfoid = to_regproc('citus_truncate_trigger')) as "isDistributed"`;

/** Which the nodes answer together. */
export const ASK_ALL = 'select id from pets limit 1';

/** Whether a process with the classes of `engine` can serve the pets. Rejects if a node is away: a list asks all of them. */
export async function isServable(engine: Engine, session: PoolClient): Promise<boolean> {
  if (engine === 'citus') {
    await session.query(ASK_ALL);
    return true;
  }
  return !(await session.query(IS_DISTRIBUTED)).rows[0].isDistributed;
}

export const forEngine = <T>(token: Abstract<T>, classes: Record<Engine, Type<T>>): Provider => ({
  provide: token,
  useFactory: (engine: Engine, module: ModuleRef) => module.create(classes[engine]),
  inject: [ENGINE, ModuleRef],
});
