import { join } from 'node:path';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { OperatorError } from '../errors/operator-error.js';
import { EmbeddedPostgres } from './embedded/embedded-postgres.js';
import { administrativeDataSource } from './data-source.js';

/** Where the embedded PostgreSQL and what belongs to it lie. */
export const DATA_FOLDER = join(PROJECT_ROOT, '.data');

/** The database that this process uses. */
export interface Database {
  /** A `postgres://` URL. */
  url: string;
  isEmbedded: boolean;
}

/**
 * Calls `work` with the database that `DATABASE_URL` names, whatever state it is in, or else with the embedded one, which
 * runs meanwhile.
 *
 * @throws NoEmbeddedPostgres, and whatever `work` throws.
 */
export async function onDatabase(
  { DATABASE_URL }: Environment,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  if (DATABASE_URL !== undefined) {
    await work({ url: DATABASE_URL, isEmbedded: false });
    return;
  }
  const server = await EmbeddedPostgres.start(DATA_FOLDER);
  try {
    await work({ url: server.url, isEmbedded: true });
  } finally {
    await server.stop();
  }
}

/** Which database `url` names, and as whom: for people, without the password. */
export function describeDatabase(url: string): string {
  // The driver knows the defaults too, those of the environment (PGHOST and its like) among them.
  const { database, host, port, user } = new Client({ connectionString: url });
  return `Database ${database} at ${host}:${port}, role ${user}`;
}

/**
 * Connects to the database at `url` for the time of `work`.
 *
 * @throws OperatorError where it cannot be used.
 */
export async function administer<T>(
  url: string,
  work: (dataSource: DataSource) => Promise<T>,
): Promise<T> {
  const dataSource = await connected(() => administrativeDataSource(url));
  try {
    await requireFit(dataSource);
    return await work(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

/**
 * @throws OperatorError where the database is not in UTF-8, in which names of animals would be counted in bytes, or not be
 *   stored at all; and where its role may use no schema, in which it would find no table.
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

/**
 * @returns the DataSource that `make` gives, connected.
 * @throws OperatorError where it cannot be used, for whatever reason: each is for whoever set `DATABASE_URL` to fix.
 */
export async function connected(make: () => DataSource): Promise<DataSource> {
  try {
    return await make().initialize();
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    const hint =
      code === 'ERR_INVALID_URL' ? '. Percent-encode the password, and name one host' : '';
    throw new OperatorError(
      `The database of DATABASE_URL cannot be used: ${message || code}${hint}`,
    );
  }
}
