import { type Environment, loadDotEnv, readEnvironment } from '../config/environment.js';
import { DATA_FOLDER, type Database } from '../database/database.js';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';

/**
 * Runs one of this project's programs: reads the environment, and on failure says why on standard error and leaves
 * with exit code 1.
 */
export async function program(work: (environment: Environment) => Promise<void>): Promise<void> {
  try {
    loadDotEnv();
    await work(readEnvironment(process.env));
  } catch (error) {
    console.error(explain(error));
    // A connection that its server does not end would keep the process for a minute.
    process.exit(1);
  }
}

/** Says on standard error where a command works that nobody gave a `DATABASE_URL`. */
export function sayWhere({ isEmbedded }: Database): void {
  if (isEmbedded) {
    console.error(`DATABASE_URL is not set: this is the embedded PostgreSQL in ${DATA_FOLDER}.`);
  }
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  if (error instanceof OperatorError) {
    return error.message;
  }
  if (sqlState(error) !== undefined) {
    return `PostgreSQL refuses: ${error.message}`;
  }
  const { code = '', syscall = '' } = error as NodeJS.ErrnoException;
  if (/^(listen|getaddrinfo)$/.test(syscall)) {
    return `${error.message}. Set HOST and PORT to an address of this machine that is free.`;
  }
  if (/^(EACCES|EPERM|EROFS)$/.test(code)) {
    return `${error.message}. Whoever runs this must be allowed to.`;
  }
  return error.stack ?? error.message;
}
