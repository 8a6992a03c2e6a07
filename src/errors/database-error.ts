import { OperatorError } from './operator-error.js';

/** SQLSTATE of a statement that writes to a server that takes no writes. */
export const READ_ONLY = '25006';

/** What an error says. That of a connection to several addresses has no message, but an error for each address. */
export function reasonOf(error: unknown): string {
  const { message, code } = Object(error);
  return error instanceof AggregateError
    ? error.errors.map(reasonOf).join('; ')
    : String(message || code || error);
}

export function sqlState(error: unknown): string | undefined {
  const { code } = Object(error);
  return typeof code === 'string' && /^(?=.*[0-9])[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** No session could be opened, or none became free in time, whatever the reason. Nothing was sent to the database. */
export class NoSessionError extends Error {
  constructor(cause: unknown) {
    super(reasonOf(cause), { cause });
  }
}

/**
 * Whether the database cannot serve the request now, but may later: there is no session, its socket failed, PostgreSQL
 * ended it (FATAL), or the error has one of these SQLSTATEs (PostgreSQL, appendix A). 08: the connection failed. 25006:
 * the server is read-only. 53: connections, memory or disk are exhausted. 40001, 40P01, 55P03: other transactions are in
 * the way. 57014, 25P04: a time limit is exceeded. 57P0x: the server shuts down or recovers. 58: a system error. 42501 of
 * these routines: a policy of row-level security. XX000 of these routines of Citus: a worker was lost, or reported such an error.
 */
export function isUnavailable(error: unknown): boolean {
  const state = sqlState(error);
  const { code, message, severity, routine } = Object(error);
  if (state !== undefined) {
    return (
      /^(08|53|58|57P0|25006|25P04|55P03|57014|40001|40P01)/.test(state) ||
      severity === 'FATAL' ||
      (state === '42501' && /^(check_enable_rls|ExecWithCheckOptions)$/.test(routine)) ||
      (state === 'XX000' && LOST_WORKER.test(routine))
    );
  }
  return (
    // A request meets an OperatorError only while a session is opened.
    error instanceof NoSessionError ||
    error instanceof OperatorError ||
    (typeof code === 'string' && SOCKET_ERRORS.test(code)) ||
    (error instanceof Error && DRIVER_ERRORS.test(message))
  );
}

const LOST_WORKER =
  /^(ReportResultError|FinishRemoteTransactionPrepare|MarkRemoteTransactionFailed|CheckRemoteTransactionsHealth|TransactionStateMachine|ScheduleNextPlacementExecution)$/;

const SOCKET_ERRORS = /^(ECONNRESET|ECONNABORTED|EPIPE|EPROTO|ERR_SSL|ETIMEDOUT|EHOST|ENETUNREACH)/;

/** pg gives these errors no code, so that their messages alone tell them from mistakes of the service. */
const DRIVER_ERRORS =
  /^(Connection terminated|Client (has encountered a connection error|was closed))/i;

/** Whether PostgreSQL rejected a statement's values: SQLSTATE classes 22 (data), 23 (integrity), and P0001 of triggers. */
export const isRefusedValue = (error: unknown): boolean =>
  /^(2[23]|P0001)/.test(sqlState(error) ?? '');
