import { join } from 'node:path';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import { type Environment, secretOf } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { isUnavailable, sqlState } from '../errors/database-error.js';
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

/** SQLSTATE of a statement that took longer than `statement_timeout`. */
const QUERY_CANCELED = '57014';

/** The folder of the embedded PostgreSQL and its files. */
export const DATA_FOLDER = join(PROJECT_ROOT, '.data');

/** The database that this process uses. */
export interface Database {
  /** A `postgres://` URL. */
  url: string;
  isEmbedded: boolean;
}

/**
 * Calls `work` with the database that `DATABASE_URL` names, without a check of its state. If `DATABASE_URL` is not set,
 * runs the embedded PostgreSQL while `work` runs.
 *
 * @throws NoEmbeddedPostgres, and whatever `work` throws.
 */
export async function onDatabase(
  { DATABASE_URL }: Environment,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  if (DATABASE_URL !== undefined) {
    await work({ url: await serverOf(DATABASE_URL), isEmbedded: false });
    return;
  }
  const { EmbeddedPostgres } = await import('../embedded-postgres/embedded-postgres.js');
  const server = await EmbeddedPostgres.start(DATA_FOLDER);
  try {
    await work({ url: server.url, isEmbedded: true });
  } finally {
    await server.stop();
  }
}

/** The URL of the server to use: the one that accepts writes, if `url` names several. */
async function serverOf(url: string): Promise<string> {
  const servers = serversOf(url);
  return servers.length === 0 ? url : writableOf(servers).catch(cannotBeUsed);
}

/**
 * Describes the database and role of `url` for people, without the password.
 *
 * @throws OperatorError if the driver cannot use the URL.
 */
export function describeDatabase(url: string): string {
  try {
    // The driver applies the defaults, including those of the environment (PGHOST and others).
    const { database, host, port, user } = new Client({ connectionString: url });
    return `Database ${database} at ${host}:${port}, role ${user}`;
  } catch (error) {
    return cannotBeUsed(error);
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
 * @throws OperatorError if the encoding is not UTF-8: the length of names would be counted in bytes, or names could not
 *   be stored. Also if the role may use no schema of its search_path, because it would find no tables.
 */
async function requireFit(dataSource: DataSource): Promise<void> {
  const [{ encoding, schema, path }] = await dataSource.query(
    `select current_setting('server_encoding') as encoding, current_schema() as schema,
            current_setting('search_path') as path`,
  );
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
      if (DATABASE_POOLER === undefined) {
        await requireOwnSessions(dataSource);
      }
      return dataSource;
    } catch (error) {
      if (dataSource.isInitialized) {
        await dataSource.destroy();
      }
      if (error instanceof OperatorError) {
        throw error;
      }
      if (!isTimeout(error) || performance.now() > deadline) {
        cannotBeUsed(error);
      }
    }
  }
}

/** Whether a session was not opened, or a statement not run, in time. A busy machine can be the reason. */
function isTimeout(error: unknown): boolean {
  const state = sqlState(error);
  return state === QUERY_CANCELED || (state === undefined && isUnavailable(error));
}

/** Most poolers reject or ignore the settings in a session's start-up packet. Missing settings show a pooler. */
async function requireSettings(dataSource: DataSource, options: ServingOptions): Promise<void> {
  const required = requiredSettings(options);
  const found = await dataSource.query<{ name: string; setting: string; role: string }[]>(
    `select name, setting, quote_ident(current_user) as role from pg_settings where name = any($1)`,
    [Object.keys(required)],
  );
  const wrong = found.filter(({ name, setting }) => setting !== required[name]);
  if (wrong.length === 0) {
    return;
  }
  if (options.pooler === undefined) {
    const settings = wrong.map(({ name, setting }) => `${name} is ${setting}`).join(', ');
    throw new OperatorError(
      `The database of DATABASE_URL ignores settings of the service's sessions (${settings}), as poolers do. ${POOLER_HINT}.`,
    );
  }
  const remedy = wrong.map(
    ({ name, role }) => `alter role ${role} set ${name} = '${required[name]}';`,
  );
  throw new OperatorError(
    'Through a pooler, the settings of sessions must be those of the role of DATABASE_URL. ' +
      `Run this, and have the pooler connect again:\n${remedy.join('\n')}`,
  );
}

/** A pooler may apply the settings and still give each transaction any of its sessions. */
async function requireOwnSessions(dataSource: DataSource): Promise<void> {
  const connections = [dataSource.createQueryRunner(), dataSource.createQueryRunner()] as const;
  try {
    const sessions: number[] = [];
    // This order also detects a pooler that uses its sessions in turns.
    for (const index of [0, 1, 1, 0] as const) {
      const [{ pid }] = await connections[index].query('select pg_backend_pid() as pid');
      sessions.push(pid);
    }
    const [first, second, ...again] = sessions;
    if (first === second || again[0] !== second || again[1] !== first) {
      throw new OperatorError(
        `The connections of DATABASE_URL share sessions, as those of poolers do. ${POOLER_HINT}.`,
      );
    }
  } finally {
    await Promise.all(connections.map((connection) => connection.release()));
  }
}

const POOLER_HINT = 'Connect to PostgreSQL itself, or set DATABASE_POOLER=transaction';

/** The error messages of PgBouncer, Neon's pooler and RDS Proxy about settings in a start-up packet. */
const POOLER_REFUSAL = /unsupported startup parameter|command-line options/i;

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
  const { message, code } = error as NodeJS.ErrnoException;
  throw new OperatorError(
    `The database of DATABASE_URL cannot be used: ${message || code}${hintTo(code, message)}`,
  );
}

function hintTo(code: string | undefined, message: string): string {
  if (code === 'ERR_INVALID_URL') {
    return '. Percent-encode the password';
  }
  return POOLER_REFUSAL.test(message) ? `. This message comes from a pooler. ${POOLER_HINT}.` : '';
}
