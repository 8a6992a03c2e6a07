import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { administer, DATA_FOLDER, describe, onDatabase } from '../database/database.js';

/** Calls `work` on a command's database and its URL. Prints on standard error which database it is. */
export function onCommandDatabase(
  environment: Environment,
  work: (dataSource: DataSource, url: string) => Promise<void>,
): Promise<void> {
  return onDatabase(environment, async ({ url, isEmbedded }) => {
    if (isEmbedded) {
      console.error(`DATABASE_URL is not set: this is the embedded PostgreSQL in ${DATA_FOLDER}.`);
    }
    await administer(url, async (dataSource) => {
      console.error(`${await describe(url, dataSource)}.`);
      await work(dataSource, url);
    });
  });
}
