import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { administer, DATA_FOLDER, describe, onDatabase } from '../database/database.js';

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
