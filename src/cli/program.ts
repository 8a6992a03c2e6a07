import { type Environment, loadDotEnv, readEnvironment } from '../config/environment.js';
import { type Database, openDatabase } from '../database/database.js';
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
    process.exitCode = 1;
  }
}

/** Opens the service's database, whatever state its schema is in, for the time of `work`. */
export async function onDatabase(
  environment: Environment,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  const database = await openDatabase(environment);
  try {
    await work(database);
  } finally {
    await database.release();
  }
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  if (error instanceof OperatorError) {
    return error.message;
  }
  const { code = '' } = error as NodeJS.ErrnoException;
  if (ADDRESS_FAULT.test(code)) {
    return `${error.message}. Set HOST and PORT to an address that is free.`;
  }
  return error.stack ?? error.message;
}

/** Why Node cannot listen. */
const ADDRESS_FAULT = /^(EADDRINUSE|EADDRNOTAVAIL|EACCES|ENOTFOUND|EAI_AGAIN)$/;
