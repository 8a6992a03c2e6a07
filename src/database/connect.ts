import { setTimeout as wait } from 'node:timers/promises';
import { Client } from 'pg';
import type { DataSource, DataSourceOptions } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { LOCK_TIMEOUT, reasonOf, sqlState, unavailableCause } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { administrativeDataSource, servingDataSource } from './data-source.js';
import { engineOf } from './engine.js';
import { DATABASE_LIMITS } from './limits.js';
import { requireSettings } from './settings.js';

/**
 * Calls `work` with connections for commands, as long as it runs.
 * @throws OperatorError if the database cannot be used, or if another session does not release a lock.
 */
export async function administer<T>(
  url: string,
  work: (dataSource: DataSource) => Promise<T>,
  entities?: DataSourceOptions['entities'],
): Promise<T> {
  const dataSource = await connect(() => administrativeDataSource(url, entities), requireFit, 0);
  try {
    return await work(dataSource);
  } catch (error) {
    throw sqlState(error) === LOCK_TIMEOUT ? new OperatorError(LOCKED, { cause: error }) : error;
  } finally {
    await dataSource.destroy();
  }
}

const LOCKED =
  'Another session holds a lock for which this command waited too long. animal-store check names the session.';

/**
 * The connections that serve requests. Their time-outs are as short as requests need, so this tries for 10 seconds.
 * @throws OperatorError if there is an unexpected pooler, no usable database, or Citus with standbys.
 */
export async function connectToServe(
  url: string,
  environment: Environment,
  entities?: DataSourceOptions['entities'],
): Promise<DataSource> {
  const engine = await administer(url, engineOf);
  if (engine === 'citus' && environment.DATABASE_READ_URL !== undefined) {
    throw new OperatorError(
      'The database of DATABASE_URL has the extension citus, so DATABASE_READ_URL must not be set: ' +
        'a standby of the coordinator reads the pets on the workers, and does not show whether those are up to date.',
    );
  }
  return connect(
    () => servingDataSource(url, environment, engine, entities),
    (dataSource) => requireSettings(dataSource, engine, environment.DATABASE_POOLER),
    DATABASE_LIMITS.starting,
  );
}

/** Connects and checks, again and again for `patience` milliseconds if the database is unavailable. @throws OperatorError */
async function connect(
  create: () => DataSource,
  check: (dataSource: DataSource) => Promise<void>,
  patience: number,
): Promise<DataSource> {
  for (const deadline = performance.now() + patience; ; await wait(DATABASE_LIMITS.startingPause)) {
    const dataSource = create();
    try {
      await dataSource.initialize();
      await check(dataSource);
      return dataSource;
    } catch (error) {
      if (dataSource.isInitialized) {
        await dataSource.destroy();
      }
      const isLasting = unavailableCause(error) === undefined || error instanceof OperatorError;
      if (isLasting || performance.now() > deadline) {
        cannotBeUsed(error);
      }
    }
  }
}

/** Describes the database, the role and the schema in which it creates tables, without the password. */
export async function describe(url: string, dataSource: DataSource): Promise<string> {
  type Row = { schema: string | null };
  const [{ schema }] = await dataSource.query<[Row]>('select current_schema() as schema');
  const { database, host, port, user } = new Client({ connectionString: url });
  return `Database ${database} at ${host}:${port}, role ${user}, schema ${schema ?? 'none'}`;
}

/** What keeps the database from being used, if anything. */
const FAULT = `
  select case
           when current_setting('server_version_num')::int < 140000
           then format('The server of DATABASE_URL is PostgreSQL %s; the service needs 14 or later.', current_setting('server_version'))
           when current_setting('server_encoding') <> 'UTF8'
           then format('The database of DATABASE_URL has the encoding %s, and must have UTF8: ' ||
                       'create database … encoding ''UTF8'' template template0.', current_setting('server_encoding'))
           when current_schema() is null
           then format('The role of DATABASE_URL may use no schema of its search_path, which is %s: ' ||
                       'grant usage on schema public to it, or set its search_path.', current_setting('search_path'))
         end as fault`;

/** @throws OperatorError if PostgreSQL is too old or a worker, does not store all characters, or shows no schema. */
async function requireFit(dataSource: DataSource): Promise<void> {
  await engineOf(dataSource);
  const [{ fault }] = await dataSource.query<[{ fault: string | null }]>(FAULT);
  if (fault !== null) {
    throw new OperatorError(fault);
  }
}

/** Throws an OperatorError with the reason, or the error itself if it is one. */
export function cannotBeUsed(error: unknown): never {
  throw error instanceof OperatorError
    ? error
    : new OperatorError(`The database of DATABASE_URL cannot be used: ${reasonOf(error)}`);
}
