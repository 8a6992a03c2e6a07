import type { Socket } from 'node:net';
import type { Pool, PoolClient } from 'pg';
import { DataSource } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import { ApiKey } from '../auth/api-key.entity.js';
import { Order } from '../orders/order.entity.js';
import { IdempotencyKey } from '../pets/idempotency-key.entity.js';
import { Pet } from '../pets/pet.entity.js';
import { poolOf } from './pool.js';

/**
 * How long the service waits for its database, in milliseconds, before it answers 503. Each is under 2 seconds, so that
 * what hangs when the database comes back does not keep the service from noticing.
 */
export const DATABASE_TIMEOUTS = {
  /** For a connection: a free one of the pool, or a new one. */
  connection: 1_000,
  /** For a statement, watched by PostgreSQL. */
  statement: 1_500,
  /** For a statement, watched here: covers a database that answers nothing at all. */
  query: 1_750,
  /** Silence on a connection before TCP asks whether the other side is still there. */
  keepAlive: 10_000,
} as const;

/**
 * Settings of the sessions that serve requests. `jit` is off: the cost estimated for a batch crosses its threshold,
 * and compiling takes 100 ms where running takes one. A prepared statement is planned once, for any values, and
 * never as a scan of the whole table, which looks cheap on a table that was small when it was planned.
 */
const SESSION = {
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  statement_timeout: DATABASE_TIMEOUTS.statement,
};

/**
 * Opens the connection pool that serves requests.
 *
 * @param url a `postgres://` URL; its parameters, TLS among them, are pg's (`sslmode`, `sslrootcert`, …).
 */
export async function servingDataSource(url: string, poolSize: number): Promise<DataSource> {
  const serving = dataSource(withSessionSettings(url), {
    max: poolSize,
    connectionTimeoutMillis: DATABASE_TIMEOUTS.connection,
    query_timeout: DATABASE_TIMEOUTS.query,
    keepAlive: true,
    keepAliveInitialDelayMillis: DATABASE_TIMEOUTS.keepAlive,
  });
  await serving.initialize();
  dropIdleOnSilence(poolOf(serving));
  return serving;
}

/**
 * Where one connection is silent for too long, the others are likely to be: those that wait in the pool are dropped,
 * so that the next statements do not find out one by one.
 */
function dropIdleOnSilence(pool: Pool): void {
  const idle = new Set<PoolClient>();
  pool.on('acquire', (client) => idle.delete(client));
  pool.on('remove', (client) => idle.delete(client));
  pool.on('release', (error, client) => {
    if (!error) {
      idle.add(client);
    } else if (error.message === 'Query read timeout') {
      // pg-pool notices, and forgets them.
      idle.forEach((one) => socketOf(one).destroy());
    }
  });
}

/** pg's types leave it out. */
function socketOf(client: PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}

/** Adds {@link SESSION} to the `options` that the URL may have, and that pg would otherwise let win. */
function withSessionSettings(url: string): string {
  const changed = new URL(url);
  const settings = Object.entries(SESSION).map(([name, value]) => `-c ${name}=${value}`);
  const options = [changed.searchParams.get('options') ?? [], settings].flat().join(' ');
  changed.searchParams.set('options', options);
  return changed.href;
}

/** Connections for a person's command or a migration, which may take its time. */
export function administrativeDataSource(url: string): DataSource {
  return dataSource(url, { max: 2, connectionTimeoutMillis: 10_000 });
}

function dataSource(url: string, extra: object): DataSource {
  return new DataSource({
    type: 'postgres',
    url,
    entities: [Pet, ApiKey, IdempotencyKey, Order],
    migrations,
    applicationName: 'animal-store',
    installExtensions: false,
    extra,
  });
}
