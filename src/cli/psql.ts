import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Command } from 'commander';
import { Client } from 'pg';
import { loadEnvironment } from '../config/environment.js';
import { OperatorError } from '../errors/operator-error.js';
import { onCommandDatabase } from './command-database.js';
import { exitCodes } from './exit-codes.js';

/** The variables of libpq (PostgreSQL, section 34.15) that have the same values as the parameters of the URL. */
const VARIABLES: Readonly<Record<string, string>> = {
  application_name: 'PGAPPNAME',
  options: 'PGOPTIONS',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  sslnegotiation: 'PGSSLNEGOTIATION',
};

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
 * The connection as variables of libpq. It is not an argument: every account of the machine can read the command line of
 * a process, and the URL may contain a password.
 */
function variablesOf(url: string): NodeJS.ProcessEnv {
  const { host, port, user, database, password } = new Client({ connectionString: url });
  const variables: NodeJS.ProcessEnv = {
    PGHOST: host,
    PGPORT: String(port),
    PGUSER: user,
    PGDATABASE: database,
    ...(typeof password === 'string' && { PGPASSWORD: password }),
  };
  for (const [name, value] of new URL(url).searchParams) {
    if (Object.hasOwn(VARIABLES, name)) {
      variables[VARIABLES[name]!] = value === 'no-verify' ? 'require' : value;
    } else if (name === 'ssl') {
      variables['PGSSLMODE'] = value === '0' ? 'disable' : 'verify-full';
    }
  }
  return variables;
}
