import pg, { Client, type ClientConfig, Pool } from 'pg';
import { DataSource } from 'typeorm';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import { migrations } from '../../migrations/index.js';
import { ApiKey } from '../auth/api-key.entity.js';
import { Order } from '../orders/order.entity.js';
import { IdempotencyKey } from '../pets/idempotency-key.entity.js';
import { Pet } from '../pets/pet.entity.js';
import { connectingToWritable, serversOf } from './servers.js';
import { DATABASE_TIMEOUTS, ServingPool, type ServingPoolConfig } from './pool.js';

/**
 * Settings of the sessions that serve requests. `jit` is off: the cost estimated for a batch crosses its threshold,
 * and compiling takes 100 ms where running takes one. A prepared statement is planned once, for any values, and
 * never as a scan of the whole table, which looks cheap on a table that was small when it was planned. Where the role's
 * default isolates transactions more, a statement for many requests would fail for one of them.
 */
const SERVING = {
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  default_transaction_isolation: 'read committed',
  statement_timeout: String(DATABASE_TIMEOUTS.statement),
};

/**
 * What is between the service and PostgreSQL. `transaction` is a pooler that gives each transaction any of its sessions: a
 * session's settings are the role's, and no statement is prepared.
 */
export type Pooler = 'transaction';

/**
 * The settings that a session must have to serve requests; times in milliseconds. Through a pooler, those for the plans of
 * prepared statements are left out: a statement that is not prepared is planned each time, for its values.
 */
export function requiredSettings(pooler?: Pooler): Record<string, string> {
  const { jit, default_transaction_isolation, statement_timeout } = SERVING;
  return pooler === undefined ? SERVING : { jit, default_transaction_isolation, statement_timeout };
}

/**
 * The connections that serve requests. {@link DataSource.initialize} opens one; each other is opened when it is needed.
 *
 * @param url a `postgres://` URL; its parameters, TLS among them, are pg's (`sslmode`, `sslrootcert`, …).
 * @param size the most connections.
 * @param pooler what is in between, if anything is.
 * @param servers the URLs of which the one that takes writes is to be used instead of `url`, if there are any.
 * @param urlNow reads a URL whose role and password each new connection uses; those of `url` if it throws.
 * @throws TypeError for a malformed URL.
 */
export function servingDataSource(
  url: string,
  size: number,
  pooler?: Pooler,
  servers: string[] = [],
  urlNow = () => url,
): DataSource {
  const ofSessions = (one: string) => (pooler === undefined ? withSettings(one, SERVING) : one);
  const ServingClient = clientWithCredentialsOf(urlNow);
  return dataSource(ServingPool, {
    Client: ServingClient,
    connectionString: ofSessions(url),
    ...(servers.length > 0 ? connectingToWritable(servers.map(ofSessions), ServingClient) : {}),
    sharesSessions: pooler !== undefined,
    max: size,
    // A server that has come to a halt would not end idle connections, and keep the process from ending.
    allowExitOnIdle: true,
    connectionTimeoutMillis: DATABASE_TIMEOUTS.connection,
    keepAlive: true,
    keepAliveInitialDelayMillis: DATABASE_TIMEOUTS.keepAlive,
  });
}

/**
 * Connections for what people do, and for what a start does before it serves: it may take its time. The second is opened
 * only when the first is busy.
 *
 * @throws TypeError for a malformed URL.
 */
export function administrativeDataSource(url: string): DataSource {
  return dataSource(Pool, {
    connectionString: url,
    // pg makes a Date of no other. Poolers refuse or ignore settings that a session starts with.
    onConnect: (client) => client.query(`set datestyle = 'ISO'`),
    max: 2,
    connectionTimeoutMillis: 10_000,
  });
}

/** @param PoolClass made by TypeORM, which connects before anybody else can listen to the pool. */
function dataSource(PoolClass: typeof Pool, config: ServingPoolConfig): DataSource {
  return new DataSource({
    type: 'postgres',
    driver: { ...pg, Pool: PoolClass },
    extra: { ...config, application_name: APPLICATION_NAME },
    entities: [Pet, IdempotencyKey, ApiKey, Order],
    migrations: [...migrations],
    installExtensions: false,
    // Of a connection that breaks while nobody uses it. The pool has dropped it; whoever asks next gets another.
    poolErrorHandler: () => {},
  });
}

/** pg's `password` may be a function, but not beside a URL, whose password wins even if it has none. */
function clientWithCredentialsOf(urlNow: () => string): typeof Client {
  return class extends Client {
    constructor({ connectionString, ...config }: ClientConfig = {}) {
      super({ ...config, connectionString: withCredentials(connectionString!, urlNow) });
    }
  };
}

function withCredentials(url: string, urlNow: () => string): string {
  try {
    const now = urlNow();
    const { username, password } = new URL(serversOf(now)[0] ?? now);
    return Object.assign(new URL(url), { username, password }).href;
  } catch {
    // Whoever changes a file may not have finished.
    return url;
  }
}

/** The pool under a DataSource that is initialized: for statements that no repository writes. */
export function poolOf({ driver }: DataSource): Pool {
  return (driver as PostgresDriver).master;
}

/** What PostgreSQL calls this service's sessions, in `pg_stat_activity` and in its log. */
export const APPLICATION_NAME = 'animal-store';

/** Adds settings to the `options` that the URL may have, and that pg would otherwise let win. */
function withSettings(url: string, settings: Record<string, string>): string {
  const changed = new URL(url);
  const added = Object.entries(settings).map(
    ([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`,
  );
  const options = [changed.searchParams.get('options') ?? [], added].flat().join(' ');
  changed.searchParams.set('options', options);
  return changed.href;
}
