import pg, { Pool } from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import type { Pooler } from '../config/environment.js';
import { connectingTo, type Sessions } from './servers.js';
import {
  DATABASE_TIMEOUTS,
  ServingPool,
  type ServingPoolConfig,
  STANDBY_TIMEOUTS,
} from './pool.js';

/** The name of this service's sessions in `pg_stat_activity` and in PostgreSQL's log. */
export const APPLICATION_NAME = 'animal-store';

/**
 * Settings of the sessions that serve requests. `jit` is off: the estimated cost of a batch exceeds its threshold, and
 * compiling takes 100 ms for a statement that runs for 1 ms. A prepared statement is planned once, for any values. For
 * a small table, PostgreSQL would plan a scan of the whole table, and keep this plan when the table has grown. So
 * sequential scans are off. Transactions are `read committed`: with a stricter isolation level, a statement for many
 * requests could fail because of one of them.
 */
const SERVING = {
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  default_transaction_isolation: 'read committed',
  statement_timeout: String(DATABASE_TIMEOUTS.statement),
};

/** Sessions that stay open while the process serves. */
const LASTING = {
  application_name: APPLICATION_NAME,
  /** The number of idle sessions that stay open. pg-pool closes others after 10 seconds. */
  min: 4,
  // Otherwise idle connections to a hanging server would keep the process from ending.
  allowExitOnIdle: true,
  keepAlive: true,
  keepAliveInitialDelayMillis: DATABASE_TIMEOUTS.keepAlive,
};

/** What TypeORM needs for repositories and for migrations. */
export type Mapping = Pick<DataSourceOptions, 'entities' | 'migrations'>;

/** What differs if the engine is not PostgreSQL itself. */
export interface Engine extends Pick<ServingPoolConfig, 'forms'> {
  /** Settings of its sessions. */
  settings?: Record<string, string>;
}

export interface ServingOptions extends Mapping, Engine, Pick<Sessions, 'urlNow'> {
  /** The kind of pooler, if there is one. */
  pooler?: Pooler;
  /** The URLs of several servers. If there are any, the one that accepts writes is used instead of the URL. */
  servers?: string[];
}

/**
 * The settings that a session must have to serve requests; times in milliseconds. Through a pooler, the settings for
 * plans of prepared statements are not required: there each statement is planned for its values when it runs.
 */
export function requiredSettings({ pooler, settings }: ServingOptions = {}): Record<
  string,
  string
> {
  const { jit, default_transaction_isolation, statement_timeout } = SERVING;
  return pooler === undefined
    ? { ...SERVING, ...settings }
    : { jit, default_transaction_isolation, statement_timeout };
}

/**
 * The sessions that serve requests. {@link DataSource.initialize} opens the first one. Others are opened when they are
 * needed.
 *
 * @param url a `postgres://` URL; its parameters, including those for TLS, are pg's (`sslmode`, `sslrootcert`, …).
 * @param size the maximum number of sessions.
 * @throws TypeError for a malformed URL.
 */
export function servingDataSource(
  url: string,
  size: number,
  { pooler, servers = [], urlNow, settings, forms, ...mapping }: ServingOptions = {},
): DataSource {
  const isForWrites = servers.length > 0;
  const config: ServingPoolConfig = {
    ...LASTING,
    ...connectingTo({
      urls: isForWrites ? servers : [url],
      timeout: DATABASE_TIMEOUTS.connection,
      urlNow,
      settings: pooler === undefined ? { ...SERVING, ...settings } : undefined,
      isForWrites,
    }),
    isForWrites,
    sharesSessions: pooler !== undefined,
    forms,
    max: size,
  };
  return dataSource(ServingPool, config, mapping);
}

/**
 * The sessions that read from one hot standby.
 *
 * @param url of that server; the other parameters are those of {@link servingDataSource}.
 * @throws TypeError for a malformed URL.
 */
export function standbyPool(url: string, size: number, urlNow: () => string): Pool {
  return new ServingPool({
    ...LASTING,
    ...connectingTo({
      urls: [url],
      timeout: STANDBY_TIMEOUTS.connection,
      urlNow,
      settings: SERVING,
    }),
    max: size,
    use: STANDBY_TIMEOUTS.use,
  });
}

/**
 * Sessions for commands, and for the start before the service serves. Their statements may take long. The second
 * session is opened only if the first is busy.
 *
 * @throws TypeError for a malformed URL.
 */
export function administrativeDataSource(url: string, mapping?: Mapping): DataSource {
  const config: ServingPoolConfig = {
    application_name: APPLICATION_NAME,
    connectionString: url,
    // pg parses dates in this style only. It is not a start-up parameter, because poolers reject or ignore those.
    onConnect: (client) => client.query(`set datestyle = 'ISO'`),
    max: 2,
    connectionTimeoutMillis: 10_000,
  };
  return dataSource(Pool, config, mapping);
}

/**
 * @param PoolClass the class of the pool. TypeORM creates the pool and connects before other code could add listeners.
 */
function dataSource(
  PoolClass: typeof Pool,
  config: ServingPoolConfig,
  mapping?: Mapping,
): DataSource {
  return new DataSource({
    type: 'postgres',
    driver: { ...pg, Pool: PoolClass },
    extra: config,
    ...mapping,
    installExtensions: false,
    // Called if an idle connection breaks. The pool has removed it and opens another one when it is needed.
    poolErrorHandler: () => {},
  });
}

/** The pool of an initialized DataSource, for statements that do not go through a repository. */
export function poolOf({ driver }: DataSource): Pool {
  return (driver as PostgresDriver).master;
}
