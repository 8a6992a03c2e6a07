import type { DatabaseError } from 'pg';
import { ApiError } from './api-error.js';

/** SQLSTATE of a statement that writes to a server that takes no writes. */
export const READ_ONLY = '25006';

/** The message of the 503 whose reason is the database. */
export const DATABASE_UNAVAILABLE = 'The database cannot be reached; try again.';

/**
 * The error for the client if the database cannot be used.
 *
 * @param cause the error for which {@link isUnavailable} is true; missing if the database has not responded in time.
 */
export function databaseUnavailable(cause?: unknown): ApiError {
  return new ApiError('unavailable', DATABASE_UNAVAILABLE, { cause });
}

/** The SQLSTATE of an error raised by PostgreSQL; else `undefined`. */
export function sqlState(error: unknown): string | undefined {
  const code = errorCode(error);
  return code !== undefined && /^(?=.*[0-9])[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/**
 * Whether `error` says that the database cannot serve the request now, but may later. The client then gets 503. It is
 * an error of the socket or of the connection pool, or one with these SQLSTATEs (PostgreSQL, appendix A):
 *
 * - 08: the connection failed.
 * - 28, 3D, 55000, only while connecting: the role is rejected; the database does not exist; it accepts no connections.
 * - 42501, only while connecting, which its severity shows: the role may not connect to the database.
 * - 25006: the server is read-only.
 * - 53: connections, memory or disk are exhausted.
 * - 40001, 40P01: a serialization failure; a deadlock.
 * - 55P03: a lock is not available.
 * - 57014, 25P04: a time limit is exceeded.
 * - 57P0x: the server shuts down, or recovers.
 * - 58: a system error.
 * - XX000 with this message: Citus lost a worker during a commit.
 */
export function isUnavailable(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== undefined) {
    if (state === 'XX000') {
      return (error as Error).message.startsWith('server closed the connection');
    }
    if (state === '42501') {
      return (error as DatabaseError).severity === 'FATAL';
    }
    return /^(08|28|3D|53|58|55000|57P0|25006|25P04|55P03|57014|40001|40P01)/.test(state);
  }
  return (
    CONNECTING.has((error as NodeJS.ErrnoException | null)?.syscall) ||
    /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)/.test(errorCode(error) ?? '') ||
    POOL_ERRORS.test(error instanceof Error ? error.message : '')
  );
}

/**
 * The system calls of connecting. Their errors are recognized by the call, because there are many codes: for example
 * `ENOENT` if the file of a Unix socket is missing.
 */
const CONNECTING = new Set<unknown>(['connect', 'getaddrinfo']);

/**
 * Whether PostgreSQL rejected the values of one statement (SQLSTATE classes 22 data and 23 integrity, and P0001, which
 * a trigger raises). The statement then did nothing. Without those values, it may succeed.
 */
export function isRefusedValue(error: unknown): boolean {
  return /^(2[23]|P0001)/.test(sqlState(error) ?? '');
}

/** pg and pg-pool give these no code. */
const POOL_ERRORS =
  /^(timeout exceeded when trying to connect|Connection terminated|Cannot use a pool after calling end|Client (has encountered a connection error|was closed)|The server does not support)/i;

function errorCode(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' ? code : undefined;
}
