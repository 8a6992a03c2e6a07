import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { engineOf } from '../citus/citus.js';
import { administer, connectToServe, DATA_FOLDER, onDatabase } from '../database/database.js';
import { ApiKey } from '../auth/api-key.entity.js';
import { Order } from '../orders/order.entity.js';
import { Pet } from '../pets/pet.entity.js';

/** Calls `work` with the URL of a command's database. Prints on standard error if it is the embedded one. */
export function onCommandDatabase(
  environment: Environment,
  work: (url: string) => Promise<void>,
): Promise<void> {
  return onDatabase(environment, async ({ url, isEmbedded }) => {
    if (isEmbedded) {
      console.error(`DATABASE_URL is not set: this is the embedded PostgreSQL in ${DATA_FOLDER}.`);
    }
    await work(url);
  });
}

/** As {@link onCommandDatabase}, but also connects, and prints on standard error which database it is. */
export function onNamedDatabase(
  environment: Environment,
  work: (dataSource: DataSource, url: string) => Promise<void>,
): Promise<void> {
  return onCommandDatabase(environment, (url) =>
    administer(url, async (dataSource) => {
      console.error(`${await describe(url, dataSource)}.`);
      await work(dataSource, url);
    }),
  );
}

/** Describes the database, the role and the schema in which it creates tables, without the password. */
export async function describe(url: string, dataSource: DataSource): Promise<string> {
  const [{ schema }] = await dataSource.query('select current_schema() as schema');
  const { database, host, port, user } = new Client({ connectionString: url });
  return `Database ${database} at ${host}:${port}, role ${user}, schema ${schema ?? 'none'}`;
}

/** `idempotency_keys` has no entity: only the statements in pets.sql.ts use it. */
export const ENTITIES = [Pet, ApiKey, Order];

/** The connections that serve requests, on Citus with its statements. @throws OperatorError if they cannot. */
export async function connectService(url: string, environment: Environment): Promise<DataSource> {
  const engine = await administer(url, (dataSource) => engineOf(dataSource, environment));
  return connectToServe(url, environment, { ...engine, entities: ENTITIES });
}
