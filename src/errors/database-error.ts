import type { UnavailableCause } from './api-error.js';
import { OperatorError } from './operator-error.js';

/** SQLSTATE of a statement that writes to a server that takes no writes. */
export const READ_ONLY = '25006';

/** SQLSTATE of a statement that waited for a lock longer than `lock_timeout`. */
export const LOCK_TIMEOUT = '55P03';

/** What an error says. That of several servers, or of several addresses of one, says what the errors of all say. */
export function reasonOf(error: unknown): string {
  const { message, code } = Object(error);
  return error instanceof AggregateError
    ? [...new Set(error.errors.map(reasonOf))].join('; ')
    : String(message || code || error);
}

export function sqlState(error: unknown): string | undefined {
  const { code } = Object(error);
  return typeof code === 'string' && /^(?=.*[0-9])[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** No session could be opened, or none became free in time, whatever the reason. Nothing was sent to the database. */
export class NoSessionError extends Error {
  constructor(
    cause: unknown,
    readonly because: UnavailableCause = unavailableCause(cause) ?? 'no_session',
  ) {
    super(reasonOf(cause), { cause });
  }
}

/** The service ended a session that was in use for longer than its limit. */
export class SessionTimeoutError extends Error {
  constructor(milliseconds: number) {
    super(`The session was in use for over ${milliseconds} ms: a lock, a slow statement or server`);
  }
}

/**
 * Why the database cannot serve the request now, but may later: there is no session, its socket failed, PostgreSQL ended it
 * (FATAL), or the error is one of {@link UNAVAILABLE}; `undefined` for other errors.
 */
export function unavailableCause(error: unknown): UnavailableCause | undefined {
  const { driverError } = Object(error);
  if (driverError !== undefined) {
    // TypeORM wraps the errors of pg's clients.
    return unavailableCause(driverError);
  }
  const state = sqlState(error);
  const { code, message, severity, routine } = Object(error);
  if (error instanceof NoSessionError) {
    return error.because;
  } else if (error instanceof SessionTimeoutError) {
    return 'database_slow';
  } else if (error instanceof OperatorError) {
    // A request meets it only while a session is opened.
    return 'refused';
  } else if (state === undefined) {
    const isLost =
      (typeof code === 'string' && SOCKET_ERRORS.test(code)) ||
      (error instanceof Error && DRIVER_ERRORS.test(message));
    return isLost ? 'connection_lost' : undefined;
  }
  const [, cause] = UNAVAILABLE.find(([errors]) => errors.test(`${state} ${routine}`)) ?? [];
  return cause ?? (severity === 'FATAL' ? 'refused' : undefined);
}

/** By SQLSTATE (PostgreSQL, appendix A) and, where that says too little, by PostgreSQL's routine. The first one counts. */
const UNAVAILABLE: readonly [RegExp, UnavailableCause][] = [
  [/^08/, 'connection_lost'],
  [/^25006/, 'read_only'],
  [/^53100/, 'disk_full'],
  [/^(40001|40P01|55P03)/, 'conflict'],
  [/^(57014|25P04)/, 'database_slow'],
  // It lacks connections or memory; shuts down or recovers; has an error of the system.
  [/^(53|57P0|58)/, 'refused'],
  // A policy of row-level security.
  [/^42501 (check_enable_rls|ExecWithCheckOptions)$/, 'refused'],
  // No transaction ids are left.
  [/^54000 GetNew(Transaction|MultiXact)Id$/, 'refused'],
  // Citus lost a worker, or a worker reported such an error.
  [
    /^XX000 (ReportResultError|FinishRemoteTransactionPrepare|MarkRemoteTransactionFailed|CheckRemoteTransactionsHealth|TransactionStateMachine|ScheduleNextPlacementExecution)$/,
    'connection_lost',
  ],
];

const SOCKET_ERRORS = /^(ECONNRESET|ECONNABORTED|EPIPE|EPROTO|ERR_SSL|ETIMEDOUT|EHOST|ENETUNREACH)/;

/** pg gives these errors no code, so that their messages alone tell them from mistakes of the service. */
const DRIVER_ERRORS =
  /^(Connection terminated|Client (has encountered a connection error|was closed))/i;

/** Whether PostgreSQL rejected a statement's values: SQLSTATE classes 22 (data), 23 (integrity), and P0001 of triggers. */
export const isRefusedValue = (error: unknown): boolean =>
  /^(2[23]|P0001)/.test(sqlState(error) ?? '');
