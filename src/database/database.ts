import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { type Environment, secretOf } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { isUnavailable } from '../errors/database-error.js';
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
export const OLDEST_VERSION = 140_000;

/** The folder of the embedded PostgreSQL and its files. */
export const DATA_FOLDER = join(PROJECT_ROOT, '.data');

/** The database that this process uses. */
export interface Database {
  /** A `postgres://` URL. */
  url: string;
  isEmbedded: boolean;
}

/**
 * Calls `work` with the database that `DATABASE_URL` names, without a check of its state. If the URL names several
 * servers, it is the one that accepts writes. Without `DATABASE_URL`, the embedded PostgreSQL runs while `work` runs.
 *
 * @throws OperatorError, and whatever `work` throws.
 */
export async function onDatabase(
  { DATABASE_URL }: Environment,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  if (DATABASE_URL !== undefined) {
    const servers = serversOf(DATABASE_URL);
    const url = servers.length === 0 ? DATABASE_URL : await writableOf(servers).catch(cannotBeUsed);
    return work({ url, isEmbedded: false });
  }
  const { EmbeddedPostgres } = await import('../embedded-postgres/embedded-postgres.js');
  const server = await EmbeddedPostgres.start(DATA_FOLDER);
  try {
    await work({ url: server.url, isEmbedded: true });
  } finally {
    await server.stop();
  }
}

/**
 * Connects to the database at `url` while `work` runs.
 *
 * @param mapping the entities and migrations that `work` uses.
 * @throws OperatorError if it cannot be used.
 */
export async function administer<T>(
  url: string,
  work: (dataSource: DataSource) => Promise<T>,
  mapping?: Mapping,
): Promise<T> {
  const dataSource = await connected(() => administrativeDataSource(url, mapping));
  try {
    await requireFit(dataSource);
    return await work(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

/**
 * @throws OperatorError if PostgreSQL is too old. Also if the encoding is not UTF-8: the length of names would be counted
 *   in bytes, or names could not be stored. Also if the role may use no schema of its search_path, because it would find
 *   no tables.
 */
async function requireFit(dataSource: DataSource): Promise<void> {
  const [{ encoding, schema, path, version, number }] = await dataSource.query(
    `select current_setting('server_encoding') as encoding, current_schema() as schema,
            current_setting('search_path') as path, current_setting('server_version') as version,
            current_setting('server_version_num')::int as number`,
  );
  if (number < OLDEST_VERSION) {
    throw new OperatorError(
      `The server of DATABASE_URL is PostgreSQL ${version}; the service needs 14 or later.`,
    );
  }
  if (encoding !== 'UTF8') {
    throw new OperatorError(
      `The database of DATABASE_URL has the encoding ${encoding}, and must have UTF8: ` +
        `create database … encoding 'UTF8' template template0.`,
    );
  }
  if (schema === null) {
    throw new OperatorError(
      `The role of DATABASE_URL may use no schema of its search_path, which is ${path}: ` +
        'grant usage on schema public to it, or set its search_path.',
    );
  }
}

/** Milliseconds for which a start tries again to open its sessions. Their time-outs are as short as requests need. */
const START_TIMEOUT = 10_000;

/**
 * @returns the connections that serve requests.
 * @throws OperatorError if the database at `url` cannot be used, or if there is a pooler that `DATABASE_POOLER` does
 *   not name.
 */
export async function connectToServe(
  url: string,
  environment: Environment,
  engineAndMapping: Engine & Mapping = {},
): Promise<DataSource> {
  const { DATABASE_URL, DATABASE_URL_FILE, DATABASE_POOL_SIZE, DATABASE_POOLER } = environment;
  const known = serversOf(DATABASE_URL ?? '');
  const options: ServingOptions = {
    ...engineAndMapping,
    pooler: DATABASE_POOLER,
    servers: known.length > 0 ? [url, ...known.filter((server) => server !== url)] : [],
    urlNow: () => secretOf('DATABASE_URL', { DATABASE_URL_FILE }) ?? url,
  };
  const deadline = performance.now() + START_TIMEOUT;
  for (;;) {
    const dataSource = servingDataSource(url, DATABASE_POOL_SIZE, options);
    try {
      await dataSource.initialize();
      await requireSettings(dataSource, options);
      return dataSource;
    } catch (error) {
      if (dataSource.isInitialized) {
        await dataSource.destroy();
      }
      if (!isUnavailable(error) || performance.now() > deadline) {
        cannotBeUsed(error);
      }
      await wait(100);
    }
  }
}

/** @throws OperatorError if sessions lack settings: through a pooler, the service cannot change them. */
async function requireSettings(dataSource: DataSource, options: ServingOptions): Promise<void> {
  const required = requiredSettings(options);
  const found = await dataSource.query<{ name: string; setting: string; role: string }[]>(
    `select name, setting, quote_ident(current_user) as role from pg_settings where name = any($1)`,
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

/**
 * @returns the DataSource that `make` returns, connected.
 * @throws OperatorError if it cannot be used, whatever the cause: the operator must fix it.
 */
export async function connected(make: () => DataSource): Promise<DataSource> {
  try {
    return await make().initialize();
  } catch (error) {
    return cannotBeUsed(error);
  }
}

function cannotBeUsed(error: unknown): never {
  if (error instanceof OperatorError) {
    throw error;
  }
  const { message, code } = error as NodeJS.ErrnoException;
  const hint = code === 'ERR_INVALID_URL' ? '. Percent-encode the password' : '';
  throw new OperatorError(`The database of DATABASE_URL cannot be used: ${message || code}${hint}`);
}
