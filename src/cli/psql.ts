import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Command } from 'commander';
import { Client } from 'pg';
import { loadEnvironment } from '../config/environment.js';
import { OperatorError } from '../errors/operator-error.js';
import { addCommand, onCommandDatabase } from './command.js';

/** Adds `animal-store psql`, which `npm run psql` runs. */
export function addPsql(program: Command): void {
  addCommand(
    program,
    'psql',
    "run psql, which must be installed, on the service's database; other exit codes are those of psql",
    { 0: 'psql succeeded', 1: 'psql failed, or is not installed' },
  )
    .argument('[arguments...]', "arguments of psql, such as -c 'table pets'")
    .allowUnknownOption()
    .action(async (args: string[]) => {
      await onCommandDatabase(loadEnvironment(), async (url) => {
        process.exitCode = await psql(url, args);
      });
    });
}

/** Runs psql. @returns the exit code of psql. */
async function psql(url: string, args: string[]): Promise<number> {
  // Ignores Ctrl-C. psql gets it too, and cancels its statement.
  process.on('SIGINT', () => {});
  const env = { ...process.env, ...variablesOf(url) };
  const child = spawn('psql', args, { stdio: 'inherit', env });
  try {
    const [code] = await once(child, 'exit');
    return code ?? 1;
  } catch {
    throw new OperatorError(
      'psql is not installed: on Debian it is in postgresql-client, for Homebrew in libpq.',
    );
  }
}

/**
 * The connection as variables of libpq (PostgreSQL, section 34.15). It is not an argument: every account of the machine
 * can read the command line of a process, and the URL may contain a password.
 */
function variablesOf(url: string): NodeJS.ProcessEnv {
  const { host, port, user, database, password } = new Client({ connectionString: url });
  const parameters = Object.fromEntries(new URL(url).searchParams);
  const { ssl, sslmode = ssl && (ssl === '0' ? 'disable' : 'verify-full'), ...others } = parameters;
  const mode = sslmode === 'no-verify' ? 'require' : sslmode;
  const values = { ...others, sslmode: mode, host, port, user, database, password };
  const variables: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null) {
      const ofLibpq = name === 'application_name' ? 'appname' : name.replaceAll('_', '');
      variables[`PG${ofLibpq.toUpperCase()}`] = String(value);
    }
  }
  return variables;
}
