import { join } from 'node:path';
import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { administrativeDataSource } from './data-source.js';
import { OperatorError } from '../errors/operator-error.js';
import { EmbeddedPostgres } from './embedded/embedded-postgres.js';

/** Where the embedded PostgreSQL and what belongs to it lie. */
export const DATA_FOLDER = join(PROJECT_ROOT, '.data');

/** The database that this process uses. */
export interface Database {
  /** A `postgres://` URL. */
  url: string;
  isEmbedded: boolean;
  /** Stops what was started for it. */
  release(): Promise<void>;
}

/**
 * The database that `DATABASE_URL` names, or else the embedded one, started.
 *
 * @throws NoEmbeddedPostgres
 */
export async function openDatabase({ DATABASE_URL }: Environment): Promise<Database> {
  if (DATABASE_URL !== undefined) {
    return { url: DATABASE_URL, isEmbedded: false, release: async () => undefined };
  }
  const server = await EmbeddedPostgres.start(DATA_FOLDER);
  return { url: server.url, isEmbedded: true, release: () => server.stop() };
}

/** Connects to the database at `url` for the time of `work`. */
export async function administer<T>(
  url: string,
  work: (dataSource: DataSource) => Promise<T>,
): Promise<T> {
  const dataSource = await connect(url);
  try {
    return await work(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

/** @throws OperatorError for whatever reason: each is for whoever set `DATABASE_URL` to mend. */
async function connect(url: string): Promise<DataSource> {
  try {
    return await administrativeDataSource(url).initialize();
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    throw new OperatorError(`The database of DATABASE_URL cannot be used: ${message || code}`);
  }
}
