import { join } from 'node:path';
import type { DataSource } from 'typeorm';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { PROJECT_ROOT } from '../config/project-root.js';
import { administer, cannotBeUsed, describe } from '../database/connect.js';
import { serversOf, writableOf } from '../database/servers.js';

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

interface CommandDatabase {
  dataSource: DataSource;
  url: string;
  environment: Environment;
}

/** Calls `work` on a command's database. Prints on standard error which database it is. */
export function onCommandDatabase(
  work: (database: CommandDatabase) => Promise<void>,
  environment = loadEnvironment(),
): Promise<void> {
  return onDatabase(environment, async ({ url, isEmbedded }) => {
    if (isEmbedded) {
      console.error(`DATABASE_URL is not set: this is the embedded PostgreSQL in ${DATA_FOLDER}.`);
    }
    await administer(url, async (dataSource) => {
      console.error(`${await describe(url, dataSource)}.`);
      await work({ dataSource, url, environment });
    });
  });
}
