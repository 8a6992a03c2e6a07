import type { Command } from 'commander';
import { Client } from 'pg';
import type { DataSource } from 'typeorm';
import type { Environment } from '../config/environment.js';
import { administer, DATA_FOLDER, onDatabase } from '../database/database.js';

/** Formats the meanings of a command's exit codes for the end of its help. */
export function exitCodes(meanings: Readonly<Record<number, string>>): string {
  const lines = Object.entries(meanings).map(([code, meaning]) => `  ${code}  ${meaning}`);
  return `\nExit codes:\n${lines.join('\n')}`;
}

/** Adds a command whose help ends with its exit codes. */
export function addCommand(
  parent: Command,
  name: string,
  description: string,
  codes: Readonly<Record<number, string>>,
): Command {
  return parent.command(name).description(description).addHelpText('after', exitCodes(codes));
}

/**
 * Calls `work` with the URL of the database that a command uses. If `DATABASE_URL` is not set, prints on standard error
 * that it is the embedded one.
 */
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
  // The driver applies the defaults, including those of the environment (PGHOST and others).
  const { database, host, port, user } = new Client({ connectionString: url });
  return `Database ${database} at ${host}:${port}, role ${user}, schema ${schema ?? 'none'}`;
}
