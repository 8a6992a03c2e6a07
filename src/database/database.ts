import { join } from 'node:path';
import type { Pool } from 'pg';
import type { Environment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { OperatorError } from '../errors/operator-error.js';
import { EmbeddedPostgres } from './embedded/embedded-postgres.js';
import { administrativePool } from './pool.js';

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

/**
 * Connects to the database at `url` for the time of `work`.
 *
 * @throws OperatorError where it cannot be used.
 */
export async function administer<T>(url: string, work: (pool: Pool) => Promise<T>): Promise<T> {
  const pool = administrativePool(url);
  try {
    (await usable(() => pool.connect())).release();
    requireUtf8((await pool.query('show server_encoding')).rows);
    return await work(pool);
  } finally {
    await pool.end();
  }
}

/**
 * In another encoding, names of animals would be counted in bytes, or not be stored at all.
 *
 * @param rows what `show server_encoding` answers.
 * @throws OperatorError where it is not UTF-8.
 */
export function requireUtf8([row]: { server_encoding: string }[]): void {
  if (row?.server_encoding !== 'UTF8') {
    throw new OperatorError(
      `The database of DATABASE_URL has the encoding ${row?.server_encoding}, and must have UTF8: ` +
        `create database … encoding 'UTF8' template template0.`,
    );
  }
}

/** @throws OperatorError where `connect` fails, for whatever reason: each is for whoever set `DATABASE_URL` to mend. */
export async function usable<T>(connect: () => Promise<T>): Promise<T> {
  try {
    return await connect();
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    throw new OperatorError(`The database of DATABASE_URL cannot be used: ${message || code}`);
  }
}
