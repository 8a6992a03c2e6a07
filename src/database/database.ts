import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { isUnavailable, reasonOf } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import {
  administrativeDataSource,
  type Engine,
  type Mapping,
  requiredSettings,
  servingDataSource,
  type ServingOptions,
} from './data-source.js';
import { serversOf, writableOf } from './servers.js';

/** PostgreSQL 14, as PostgreSQL numbers its versions. */
const OLDEST_VERSION = 140_000;

export const DATA_FOLDER = join(PROJECT_ROOT, '.data');

/** Calls `work` with the URL of the server that accepts writes, or of the embedded PostgreSQL, which runs meanwhile. */
export async function onDatabase(
  { DATABASE_URL }: Environment,
  work: (database: { url: string; isEmbedded: boolean }) => Promise<void>,
): Promise<void> {
  if (DATABASE_URL !== undefined) {
    const servers = serversOf(DATABASE_URL);
    const url = servers.length === 0 ? DATABASE_URL : await writableOf(servers).catch(cannotBeUsed);
    return work({ url, isEmbedded: false });
  }
  const { EmbeddedPostgres } = await import('../embedded-postgres/embedded-postgres.js');
  const server = await EmbeddedPostgres.start(DATA_FOLDER);
  try {
    await Promise.race([work({ url: server.url, isEmbedded: true }), server.lost]);
  } finally {
    await server.stop();
  }
}

/** Connects to the database at `url` while `work` runs. @throws OperatorError if it cannot be used. */
export async function administer<T>(
  url: string,
  work: (dataSource: DataSource) => Promise<T>,
  mapping?: Mapping,
): Promise<T> {
  const dataSource = await connected(administrativeDataSource(url, mapping));
  try {
    await requireFit(dataSource);
    return await work(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

/** Describes the database, the role and the schema in which it creates tables, without the password. */
export async function describe(url: string, dataSource: DataSource): Promise<string> {
  const [{ schema }] = await dataSource.query('select current_schema() as schema');
  const { database, host, port, user } = new Client({ connectionString: url });
  return `Database ${database} at ${host}:${port}, role ${user}, schema ${schema ?? 'none'}`;
}

/** @throws OperatorError if PostgreSQL is too old, does not count and store all characters, or shows no schema. */
async function requireFit(dataSource: DataSource): Promise<void> {
  const [{ encoding, schema, path, version, number }] = await dataSource.query(
    `select current_setting('server_encoding') as encoding, current_schema() as schema,
            current_setting('search_path') as path, current_setting('server_version') as version,
            current_setting('server_version_num')::int as number`,
  );
  const fault =
    number < OLDEST_VERSION
      ? `The server of DATABASE_URL is PostgreSQL ${version}; the service needs 14 or later.`
      : encoding !== 'UTF8'
        ? `The database of DATABASE_URL has the encoding ${encoding}, and must have UTF8: create database … encoding 'UTF8' template template0.`
        : schema === null
          ? `The role of DATABASE_URL may use no schema of its search_path, which is ${path}: grant usage on schema public to it, or set its search_path.`
          : undefined;
  if (fault !== undefined) {
    throw new OperatorError(fault);
  }
}

/**
 * The connections that serve requests. Their time-outs are as short as requests need, so this tries for 10 seconds.
 *
 * @throws OperatorError if there is an unexpected pooler or no usable database.
 */
export async function connectToServe(
  url: string,
  environment: Environment,
  engine: Engine,
  deadline = performance.now() + 10_000,
): Promise<DataSource> {
  const { DATABASE_URL, DATABASE_POOL_SIZE, DATABASE_POOLER } = environment;
  const known = serversOf(DATABASE_URL ?? '');
  const options: ServingOptions = {
    ...engine,
    pooler: DATABASE_POOLER,
    servers: known.length > 0 ? [url, ...known.filter((server) => server !== url)] : [],
  };
  const dataSource = servingDataSource(url, DATABASE_POOL_SIZE, options);
  try {
    await dataSource.initialize();
    await requireSettings(dataSource, options);
    return dataSource;
  } catch (error) {
    if (dataSource.isInitialized) {
      await dataSource.destroy();
    }
    if (error instanceof OperatorError || !isUnavailable(error) || performance.now() > deadline) {
      cannotBeUsed(error);
    }
    return wait(100).then(() => connectToServe(url, environment, engine, deadline));
  }
}

/** @throws OperatorError if sessions lack settings: through a pooler, the service cannot change them. */
async function requireSettings(dataSource: DataSource, options: ServingOptions): Promise<void> {
  const required = requiredSettings(options);
  const found = await dataSource.query<{ name: string; setting: string; role: string }[]>(
    `select name, setting, quote_ident(session_user) as role from pg_settings where name = any($1)`,
    [Object.keys(required)],
  );
  const remedy = found
    .filter(({ name, setting }) => setting !== required[name])
    .map(({ name, role }) => `alter role ${role} set ${name} = '${required[name]}';`);
  if (remedy.length > 0) {
    throw new OperatorError(
      'Through a pooler, the settings of sessions must be those of the role of DATABASE_URL. ' +
        `Run this, and have the pooler connect again:\n${remedy.join('\n')}`,
    );
  }
}

/** Connects the DataSource. @throws OperatorError if it cannot be used, whatever the cause. */
const connected = (dataSource: DataSource): Promise<DataSource> =>
  dataSource.initialize().catch(cannotBeUsed);

function cannotBeUsed(error: unknown): never {
  if (error instanceof OperatorError) {
    throw error;
  }
  throw new OperatorError(`The database of DATABASE_URL cannot be used: ${reasonOf(error)}`);
}
