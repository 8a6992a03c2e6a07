import { ApiError } from './api-error.js';

/** SQLSTATE of a statement that writes to a server that takes no writes. */
export const READ_ONLY = '25006';

/** The message of the 503 whose reason is the database. */
export const DATABASE_UNAVAILABLE = 'The database cannot be reached; try again.';

/** What a client gets of an error that {@link isUnavailable}, or if there is no word from the database. */
export function databaseUnavailable(cause?: unknown): ApiError {
  return new ApiError('unavailable', DATABASE_UNAVAILABLE, { cause });
}

/** The SQLSTATE of an error raised by PostgreSQL; else `undefined`. */
export function sqlState(error: unknown): string | undefined {
  const code = errorCode(error);
  return code !== undefined && /^(?=.*[0-9])[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/**
 * Whether `error` says that the database cannot serve now and may later: the client gets 503.
 *
 * SQLSTATE (PostgreSQL, appendix A): class 08 connection; 28, 3D and 55000 a role, a database, or a database that takes
 * no connections, which only connecting meets; 25006 read-only, 53 resources (connections, memory, disk), 40001 and
 * 40P01 serialisation and deadlock, 55P03 lock not available, 57014 and 25P04 time-outs, 57P0x shutdown and recovery,
 * 58 system; otherwise an error of the socket or of the connection pool, which carry no SQLSTATE.
 */
export function isUnavailable(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== undefined) {
    return /^(08|28|3D|53|58|55000|57P0|25006|25P04|55P03|57014|40001|40P01)/.test(state);
  }
  return (
    CONNECTING.has((error as NodeJS.ErrnoException | null)?.syscall) ||
    /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)/.test(errorCode(error) ?? '') ||
    POOL_ERRORS.test(error instanceof Error ? error.message : '')
  );
}

/** System calls that fail, for many reasons, while connecting: the file of a Unix socket may be missing. */
const CONNECTING = new Set<unknown>(['connect', 'getaddrinfo']);

/**
 * Whether PostgreSQL rejected the values of one statement (SQLSTATE classes 22 data and 23 integrity, and P0001, which
 * a trigger raises): the statement did nothing, and others sent without those values may succeed.
 */
export function isRefusedValue(error: unknown): boolean {
  return /^(2[23]|P0001)/.test(sqlState(error) ?? '');
}

/** pg and pg-pool give these no code. */
const POOL_ERRORS =
  /^(timeout exceeded when trying to connect|Connection terminated|Cannot use a pool after calling end|Client has encountered a connection error|The server does not support)/i;

function errorCode(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' ? code : undefined;
}
