import pg, { Client, type ClientConfig, Pool } from 'pg';
import { DataSource } from 'typeorm';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import { migrations } from '../../migrations/index.js';
import { ApiKey } from '../auth/api-key.entity.js';
import { Order } from '../orders/order.entity.js';
import { IdempotencyKey } from '../pets/idempotency-key.entity.js';
import { Pet } from '../pets/pet.entity.js';
import { CITUS_FORMS, CITUS_SETTINGS } from '../citus/citus.js';
import { hostsOf, parsable } from '../config/database-url.js';
import type { Pooler } from '../config/environment.js';
import { connectingToWritable } from './servers.js';
import {
  DATABASE_TIMEOUTS,
  ServingPool,
  type ServingPoolConfig,
  STANDBY_TIMEOUTS,
} from './pool.js';

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

/**
 * The settings that a session must have to serve requests; times in milliseconds. Through a pooler, the settings for
 * plans of prepared statements are not required: there each statement is planned for its values when it runs.
 */
export function requiredSettings(pooler?: Pooler, onCitus = false): Record<string, string> {
  const { jit, default_transaction_isolation, statement_timeout } = SERVING;
  return pooler === undefined
    ? settingsOf(onCitus)
    : { jit, default_transaction_isolation, statement_timeout };
}

const settingsOf = (onCitus: boolean) => (onCitus ? { ...SERVING, ...CITUS_SETTINGS } : SERVING);

/**
 * The connections that serve requests. {@link DataSource.initialize} opens the first one. Others are opened when they
 * are needed.
 *
 * @param url a `postgres://` URL; its parameters, including those for TLS, are pg's (`sslmode`, `sslrootcert`, …).
 * @param size the maximum number of connections.
 * @param pooler the kind of pooler, if there is one.
 * @param servers the URLs of several servers. If there are any, the one that accepts writes is used instead of `url`.
 * @param urlNow reads the URL with the current role and password for each new connection. If it throws, those of `url`
 *   are used.
 * @param onCitus whether the database has the extension `citus`.
 * @throws TypeError for a malformed URL.
 */
export function servingDataSource(
  url: string,
  size: number,
  pooler?: Pooler,
  servers: string[] = [],
  urlNow = () => url,
  onCitus = false,
): DataSource {
  const ofSessions = (one: string) =>
    pooler === undefined ? withSettings(one, settingsOf(onCitus)) : one;
  const ServingClient = clientWithCredentialsOf(urlNow);
  return dataSource(ServingPool, {
    Client: ServingClient,
    connectionString: ofSessions(url),
    ...(servers.length > 0 ? connectingToWritable(servers.map(ofSessions), ServingClient) : {}),
    sharesSessions: pooler !== undefined,
    ...(onCitus ? { forms: CITUS_FORMS } : {}),
    max: size,
    connectionTimeoutMillis: DATABASE_TIMEOUTS.connection,
    ...LASTING,
  });
}

/**
 * The connections that read from one hot standby.
 *
 * @param url of that server; the other parameters are those of {@link servingDataSource}.
 * @throws TypeError for a malformed URL.
 */
export function standbyDataSource(url: string, size: number, urlNow: () => string): DataSource {
  return dataSource(ServingPool, {
    Client: clientWithCredentialsOf(urlNow),
    connectionString: withSettings(url, SERVING),
    max: size,
    connectionTimeoutMillis: STANDBY_TIMEOUTS.connection,
    silence: STANDBY_TIMEOUTS.silence,
    ...LASTING,
  });
}

/** Settings of connections that stay open while the process serves. */
const LASTING = {
  // Otherwise idle connections to a hanging server would keep the process from ending.
  allowExitOnIdle: true,
  keepAlive: true,
  keepAliveInitialDelayMillis: DATABASE_TIMEOUTS.keepAlive,
};

/**
 * Connections for commands, and for the start before the service serves. Their statements may take long. The second
 * connection is opened only if the first is busy.
 *
 * @throws TypeError for a malformed URL.
 */
export function administrativeDataSource(url: string): DataSource {
  return dataSource(Pool, {
    connectionString: url,
    // pg parses dates in this style only. It is not a start-up parameter, because poolers reject or ignore those.
    onConnect: (client) => client.query(`set datestyle = 'ISO'`),
    max: 2,
    connectionTimeoutMillis: 10_000,
  });
}

/**
 * @param PoolClass the class of the pool. TypeORM creates the pool and connects before other code could add listeners.
 */
function dataSource(PoolClass: typeof Pool, config: ServingPoolConfig): DataSource {
  return new DataSource({
    type: 'postgres',
    driver: { ...pg, Pool: PoolClass },
    extra: { ...config, application_name: APPLICATION_NAME },
    entities: [Pet, IdempotencyKey, ApiKey, Order],
    migrations: [...migrations],
    installExtensions: false,
    // Called if an idle connection breaks. The pool has removed it and opens another one when it is needed.
    poolErrorHandler: () => {},
  });
}

/** pg accepts a function as `password`, but a URL overrides it, even a URL without a password. */
function clientWithCredentialsOf(urlNow: () => string): typeof Client {
  return class extends Client {
    constructor({ connectionString, ...config }: ClientConfig = {}) {
      super({ ...config, connectionString: withCredentials(connectionString!, urlNow) });
    }
  };
}

function withCredentials(url: string, urlNow: () => string): string {
  try {
    const now = new URL(hostsOf(parsable(urlNow()))[0]!);
    const { username, password } = now;
    const changed = Object.assign(new URL(url), { username, password });
    // In a URL, the parameters `user` and `password` override the role and password before the host.
    for (const name of ['user', 'password']) {
      changed.searchParams.delete(name);
      now.searchParams.getAll(name).forEach((value) => changed.searchParams.set(name, value));
    }
    return changed.href;
  } catch {
    // The URL may come from a file that is just being written.
    return url;
  }
}

/** The pool of an initialized DataSource, for statements that do not go through a repository. */
export function poolOf({ driver }: DataSource): Pool {
  return (driver as PostgresDriver).master;
}

/** The name of this service's sessions in `pg_stat_activity` and in PostgreSQL's log. */
export const APPLICATION_NAME = 'animal-store';

/** Adds settings to the URL's `options`, which would otherwise override them. */
function withSettings(url: string, settings: Record<string, string>): string {
  const changed = new URL(url);
  const added = Object.entries(settings).map(
    ([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`,
  );
  const options = [changed.searchParams.get('options') ?? [], added].flat().join(' ');
  changed.searchParams.set('options', options);
  return changed.href;
}
