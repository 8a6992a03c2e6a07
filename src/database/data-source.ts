import pg, { Pool, type PoolConfig } from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import type { Environment } from '../config/environment.js';
import type { Engine } from './engine.js';
import { connectingTo, processIdOf } from './servers.js';
import {
  DATABASE_TIMEOUTS,
  ServingPool,
  type ServingPoolConfig,
  STANDBY_TIMEOUTS,
} from './pool.js';

/** The name of this service's sessions in `pg_stat_activity` and in PostgreSQL's log. */
export const APPLICATION_NAME = 'animal-store';

/** Settings of the sessions that serve requests. */
const SERVING = {
  // PostgreSQL would compile each batch, which takes 100 ms for a statement of 1 ms.
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  // The one plan of a statement must not be the scan that fits a table while it is small.
  enable_seqscan: 'off',
  // With a stricter level, a statement for many requests could fail because of one of them.
  default_transaction_isolation: 'read committed',
  statement_timeout: String(DATABASE_TIMEOUTS.statement),
  // If a policy could hide rows, PostgreSQL raises an error.
  row_security: 'off',
};

const LASTING = {
  application_name: APPLICATION_NAME,
  // Idle sessions that stay open. pg-pool closes others after 10 seconds.
  min: 4,
  // Otherwise idle connections to a hanging server would keep the process from ending.
  allowExitOnIdle: true,
  keepAlive: true,
  keepAliveInitialDelayMillis: DATABASE_TIMEOUTS.keepAlive,
};

/** What TypeORM needs for repositories and for migrations. */
export type Mapping = Pick<DataSourceOptions, 'entities' | 'migrations'>;

export interface ServingOptions extends Mapping {
  engine?: Engine;
  pooler?: Environment['DATABASE_POOLER'];
  /** The URLs of several servers. If there are any, the one that accepts writes is used instead of the URL. */
  servers?: string[];
}

/**
 * The settings that sessions must have to serve requests. Behind a pooler, nothing is prepared, so no plan is set, and
 * only readiness looks for policies.
 */
export function requiredSettings(options: ServingOptions = {}): Record<string, string> {
  const { plan_cache_mode: _, enable_seqscan: __, row_security: ___, ...always } = SERVING;
  return options.pooler === undefined ? settingsOf(options.engine) : always;
}

/** Citus plans each call: it has no generic plan for a range or an array of the distribution column. */
const settingsOf = (engine?: Engine) =>
  engine === 'citus' ? { ...SERVING, plan_cache_mode: 'auto' } : SERVING;

/** The sessions that serve requests, at most `size`. The first one is opened by `initialize`. */
export function servingDataSource(
  url: string,
  size: number,
  { pooler, servers = [], engine, ...mapping }: ServingOptions = {},
): DataSource {
  const isForWrites = servers.length > 0;
  const config: ServingPoolConfig = {
    ...LASTING,
    ...connectingTo({
      urls: isForWrites ? servers : [url],
      timeout: DATABASE_TIMEOUTS.connection,
      settings: pooler === undefined ? settingsOf(engine) : undefined,
      isForWrites,
    }),
    sharesSessions: pooler !== undefined,
    max: size,
  };
  return dataSource(ServingPool, config, mapping);
}

/** The sessions that read from the hot standby at `url`, at most `size`. */
export function standbyPool(url: string, size: number): Pool {
  const { connection: timeout, use } = STANDBY_TIMEOUTS;
  const config = connectingTo({ urls: [url], timeout, settings: SERVING });
  return new ServingPool({ ...LASTING, ...config, max: size, use });
}

/** Sessions for commands and for the start, whose statements may take long. */
export function administrativeDataSource(url: string, mapping?: Mapping): DataSource {
  const config: PoolConfig = {
    ...connectingTo({ urls: [url], timeout: 10_000 }),
    application_name: APPLICATION_NAME,
    // pg parses dates in this style only. Poolers reject or ignore it as a start-up parameter. The session of a pooler,
    // whose process id differs, keeps its other settings.
    onConnect: (client) => client.query(OPEN_COMMAND, [processIdOf(client)]),
    max: 2,
  };
  return dataSource(Pool, config, mapping);
}

const OPEN_COMMAND = `select set_config('datestyle', 'ISO', false),
       (select set_config('row_security', 'off', false) where pg_backend_pid() = $1::int)`;

function dataSource(PoolClass: typeof Pool, extra: PoolConfig, mapping?: Mapping): DataSource {
  return new DataSource({
    type: 'postgres',
    // TypeORM creates the pool, and connects before other code could add listeners.
    driver: { ...pg, Pool: PoolClass },
    extra,
    ...mapping,
    installExtensions: false,
    // An idle connection broke. The pool opens another one when it is needed.
    poolErrorHandler: () => {},
  });
}

/** The pool of an initialized DataSource, for statements that do not go through a repository. */
export function poolOf({ driver }: DataSource): Pool {
  return (driver as PostgresDriver).master;
}
