import pg, { Pool, type PoolConfig } from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import type { Environment } from '../config/environment.js';
import type { Engine } from './engine.js';
import { connectingTo, serversOf } from './servers.js';
import { requiredSettings } from './settings.js';
import { DATABASE_LIMITS } from './limits.js';
import { ServingPool, type ServingPoolConfig } from './pool.js';

/** The name of this service's sessions in `pg_stat_activity` and in PostgreSQL's log. */
export const APPLICATION_NAME = 'animal-store';

const KEEP_ALIVE = {
  keepAlive: true,
  keepAliveInitialDelayMillis: DATABASE_LIMITS.keepAlive,
};

const LASTING = {
  application_name: APPLICATION_NAME,
  min: DATABASE_LIMITS.idleSessions,
  // Otherwise idle connections to a hanging server would keep the process from ending.
  allowExitOnIdle: true,
  ...KEEP_ALIVE,
};

type Entities = DataSourceOptions['entities'];

/**
 * The sessions that serve requests. The first one is opened by `initialize`.
 * @param url that of the server to begin with, if `DATABASE_URL` has several: then the one that accepts writes is used.
 */
export function servingDataSource(
  url: string,
  environment: Environment,
  engine?: Engine,
  entities?: Entities,
): DataSource {
  const { DATABASE_URL = '', DATABASE_URL_FILE: passwordFile, DATABASE_POOLER } = environment;
  const servers = serversOf(DATABASE_URL);
  const config: ServingPoolConfig = {
    ...LASTING,
    ...connectingTo({
      urls: [...new Set([url, ...servers])],
      timeout: DATABASE_LIMITS.connecting,
      settings: DATABASE_POOLER === undefined ? requiredSettings(engine) : undefined,
      target: servers.length > 0 ? 'read-write' : 'primary',
      passwordFile,
    }),
    max: environment.DATABASE_POOL_SIZE,
  };
  return dataSource(ServingPool, config, entities);
}

export function standbyPool(url: string, size: number, passwordFile?: string): Pool {
  const { standby: timeout } = DATABASE_LIMITS;
  const settings = requiredSettings();
  const config = connectingTo({ urls: [url], timeout, settings, passwordFile });
  return new ServingPool({ ...LASTING, ...config, max: size, use: timeout, waiting: timeout });
}

export function administrativeDataSource(url: string, entities?: Entities): DataSource {
  const config: PoolConfig = {
    ...connectingTo({ urls: [url], timeout: DATABASE_LIMITS.command }),
    application_name: APPLICATION_NAME,
    // pg parses dates in this style only. Poolers reject or ignore it as a start-up parameter. The session of a pooler,
    // whose process id differs, keeps its other settings.
    onConnect: (client) => client.query(OPEN_COMMAND, [client.processID, DATABASE_LIMITS.command]),
    max: DATABASE_LIMITS.commandSessions,
    ...KEEP_ALIVE,
  };
  return dataSource(Pool, config, entities);
}

const OPEN_COMMAND = `select set_config('datestyle', 'ISO', false),
       (select count(set_config(name, value, false))
          from (values ('row_security', 'off'), ('statement_timeout', '0'), ('lock_timeout', $2)) as setting (name, value)
         where pg_backend_pid() = $1::int)`;

function dataSource(PoolClass: typeof Pool, extra: PoolConfig, entities?: Entities): DataSource {
  return new DataSource({
    type: 'postgres',
    // TypeORM creates the pool, and connects before other code could add listeners.
    driver: { ...pg, Pool: PoolClass },
    extra,
    entities,
    installExtensions: false,
    // An idle connection broke. The pool opens another one when it is needed.
    poolErrorHandler: () => {},
  });
}

/** The pool of an initialized DataSource, for statements that do not go through a repository. */
export const poolOf = ({ driver }: DataSource): Pool => (driver as PostgresDriver).master;
