import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Command } from 'commander';
import { loadEnvironment } from '../config/environment.js';
import { OperatorError } from '../errors/operator-error.js';
import { onCommandDatabase } from './command-database.js';
import { exitCodes } from './exit-codes.js';

/** `animal-store psql`, and so `npm run psql`. */
export function addPsql(program: Command): void {
  program
    .command('psql')
    .description("run psql, which must be installed, on the service's database")
    .argument('[arguments...]', "psql's own, such as -c 'table pets'")
    .allowUnknownOption()
    .addHelpText(
      'after',
      exitCodes({ 0: 'psql succeeded', 1: 'psql failed, or is not installed' }) +
        "\nOthers are psql's own.",
    )
    .action(async (args: string[]) => {
      await onCommandDatabase(loadEnvironment(), async (url) => {
        process.exitCode = await psql(url, args);
      });
    });
}

/** @returns its exit code. */
async function psql(databaseUrl: string, args: string[]): Promise<number> {
  // Every account of the machine can read the command line, but only this account can read the environment.
  const url = new URL(databaseUrl);
  const PGPASSWORD = decodeURIComponent(url.password);
  url.password = '';
  // Ctrl-C is for psql, which cancels its statement.
  process.on('SIGINT', () => {});
  const child = spawn('psql', [url.href, ...args], {
    stdio: 'inherit',
    env: { ...process.env, ...(PGPASSWORD && { PGPASSWORD }) },
  });
  try {
    const [code] = await once(child, 'exit');
    return code ?? 1;
  } catch {
    throw new OperatorError(
      'psql is not installed: on Debian it is in postgresql-client, for Homebrew in libpq.',
    );
  }
}
