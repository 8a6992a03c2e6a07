import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Command } from 'commander';
import { loadEnvironment } from '../config/environment.js';
import { OperatorError } from '../errors/operator-error.js';
import { onCommandDatabase } from './command-database.js';
import { exitCodes } from './exit-codes.js';

/** Adds `animal-store psql`, which `npm run psql` runs. */
export function addPsql(program: Command): void {
  program
    .command('psql')
    .description("run psql, which must be installed, on the service's database")
    .argument('[arguments...]', "arguments of psql, such as -c 'table pets'")
    .allowUnknownOption()
    .addHelpText(
      'after',
      exitCodes({ 0: 'psql succeeded', 1: 'psql failed, or is not installed' }) +
        '\nOther exit codes are those of psql.',
    )
    .action(async (args: string[]) => {
      await onCommandDatabase(loadEnvironment(), async (url) => {
        process.exitCode = await psql(url, args);
      });
    });
}

/** Runs psql. @returns the exit code of psql. */
async function psql(databaseUrl: string, args: string[]): Promise<number> {
  // Passes the password in the environment: every account of the machine can read the command line of a process.
  const url = new URL(databaseUrl);
  const PGPASSWORD = decodeURIComponent(url.password);
  url.password = '';
  // Ignores Ctrl-C. psql gets it too, and cancels its statement.
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
