import { ApiError } from './api-error.js';

/** SQLSTATE of a statement that writes to a server that takes no writes. */
export const READ_ONLY = '25006';

/**
 * The error for the client if the database cannot be used.
 *
 * @param cause the error for which {@link isUnavailable} is true; missing if the database has not responded in time.
 */
export const databaseUnavailable = (cause?: unknown): ApiError =>
  new ApiError('unavailable', 'The database cannot be reached; try again.', { cause });

/** The SQLSTATE of an error raised by PostgreSQL; else `undefined`. */
export function sqlState(error: unknown): string | undefined {
  const { code } = Object(error);
  return typeof code === 'string' && /^(?=.*[0-9])[0-9A-Z]{5}$/.test(code) ? code : undefined;
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
  const { code, syscall, message, severity } = Object(error);
  if (state === 'XX000') {
    return String(message).startsWith('server closed the connection');
  }
  if (state === '42501') {
    return severity === 'FATAL';
  }
  if (state !== undefined) {
    return /^(08|28|3D|53|58|55000|57P0|25006|25P04|55P03|57014|40001|40P01)/.test(state);
  }
  return (
    // The errors of connecting have many codes: for example `ENOENT` if the file of a Unix socket is missing.
    ['connect', 'getaddrinfo'].includes(syscall) ||
    (typeof code === 'string' && SOCKET_ERRORS.test(code)) ||
    (error instanceof Error && DRIVER_ERRORS.test(message))
  );
}

const SOCKET_ERRORS = /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)/;

/** pg and pg-pool give these errors no code, so that their messages alone tell them from mistakes of the service. */
const DRIVER_ERRORS =
  /^(timeout exceeded when trying to connect|Connection terminated|Cannot use a pool after calling end|Client (has encountered a connection error|was closed)|The server does not support|There was an error establishing an SSL connection)/i;

/**
 * Whether PostgreSQL rejected the values of one statement (SQLSTATE classes 22 data and 23 integrity, and P0001, which
 * a trigger raises). The statement then did nothing. Without those values, it may succeed.
 */
export const isRefusedValue = (error: unknown): boolean =>
  /^(2[23]|P0001)/.test(sqlState(error) ?? '');
