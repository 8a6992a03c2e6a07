/** SQLSTATE of a statement that writes to a server that takes no writes. */
export const READ_ONLY = '25006';

/** What an error says. That of a connection to several addresses has no message, but an error for each address. */
export function reasonOf(error: unknown): string {
  const { message, code } = Object(error);
  return error instanceof AggregateError
    ? error.errors.map(reasonOf).join('; ')
    : String(message || code || error);
}

/** The SQLSTATE of an error raised by PostgreSQL; else `undefined`. */
export function sqlState(error: unknown): string | undefined {
  const { code } = Object(error);
  return typeof code === 'string' && /^(?=.*[0-9])[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/**
 * Whether the database cannot serve the request now, but may later: an error of the socket or of the pool, or one with
 * these SQLSTATEs (PostgreSQL, appendix A). 08: the connection failed. 28, 3D, 55000, and 42501 as FATAL: the server
 * accepts no connection. 25006: it is read-only. 53: connections, memory or disk are exhausted. 40001, 40P01, 55P03: other
 * transactions are in the way. 57014, 25P04: a time limit is exceeded. 57P0x: the server shuts down or recovers. 58: a
 * system error. XX000 with this message: Citus lost a worker during a commit.
 */
export function isUnavailable(error: unknown): boolean {
  const state = sqlState(error);
  const { code, syscall, message, severity } = Object(error);
  if (state !== undefined) {
    return (
      /^(08|28|3D|53|58|55000|57P0|25006|25P04|55P03|57014|40001|40P01)/.test(state) ||
      (state === '42501' && severity === 'FATAL') ||
      (state === 'XX000' && String(message).startsWith('server closed the connection'))
    );
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
 * a trigger raises). Without those values, it may succeed.
 */
export const isRefusedValue = (error: unknown): boolean =>
  /^(2[23]|P0001)/.test(sqlState(error) ?? '');
