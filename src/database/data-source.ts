import { DataSource } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import { ApiKey } from '../auth/api-key.entity.js';
import { Pet } from '../pets/pet.entity.js';

/** How long the service waits for its database, in milliseconds, before it answers 503. */
export const DATABASE_TIMEOUTS = {
  /** For a connection: a free one of the pool, or a new one. */
  connection: 2_000,
  /** For a statement, watched by PostgreSQL. */
  statement: 3_000,
  /** For a statement, watched here: covers a database that answers nothing at all. */
  query: 4_000,
} as const;

/**
 * The connection pool that serves requests.
 *
 * `jit` is off: the cost estimated for a batch crosses PostgreSQL's JIT threshold, and compiling it takes 100 ms
 * where running it takes one.
 *
 * @param url a `postgres://` URL; its parameters, TLS among them, are pg's (`sslmode`, `sslrootcert`, …).
 */
export function servingDataSource(url: string, poolSize: number): DataSource {
  return dataSource(url, {
    max: poolSize,
    connectionTimeoutMillis: DATABASE_TIMEOUTS.connection,
    query_timeout: DATABASE_TIMEOUTS.query,
    keepAlive: true,
    options: `-c jit=off -c statement_timeout=${DATABASE_TIMEOUTS.statement}`,
  });
}

/** Connections for a person's command or a migration, which may take its time. */
export function administrativeDataSource(url: string): DataSource {
  return dataSource(url, { max: 2, connectionTimeoutMillis: 10_000 });
}

function dataSource(url: string, extra: object): DataSource {
  return new DataSource({
    type: 'postgres',
    url,
    entities: [Pet, ApiKey],
    migrations,
    applicationName: 'animal-store',
    installExtensions: false,
    extra,
  });
}
