import { QueryFailedError } from 'typeorm';
import {
  isRefusedValue,
  NoSessionError,
  SessionTimeoutError,
  unavailableCause,
} from '../../src/errors/database-error.js';
import { OperatorError } from '../../src/errors/operator-error.js';

const withCode = (code: unknown, more = {}) => Object.assign(new Error('why'), { code, ...more });
const withCodes = (codes: string) => codes.split(' ').map((code) => withCode(code));

const UNAVAILABLE: unknown[] = [
  ...withCodes('08000 08001 08003 08006 25006 25P04 40001 40P01 53000 53100'),
  ...withCodes('53200 53300 55P03 57014 57P01 57P02 57P03 58000 58030 58P01'),
  ...withCodes('ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH ENETUNREACH EHOSTDOWN'),
  ...withCodes('EPROTO ERR_SSL_BAD_RECORD_TYPE'),
  // Whatever happened while a session was opened; a pooler ended the session.
  ...[withCode('ENOENT'), withCode('3D000'), new Error('unable to verify'), 'why', undefined].map(
    (cause) => new NoSessionError(cause),
  ),
  new OperatorError('There is a pooler'),
  withCode('28P01', { severity: 'FATAL' }),
  // A policy of row-level security; Citus lost a worker.
  withCode('42501', { severity: 'ERROR', routine: 'check_enable_rls' }),
  withCode('42501', { severity: 'ERROR', routine: 'ExecWithCheckOptions' }),
  withCode('54000', { severity: 'ERROR', routine: 'GetNewTransactionId' }),
  withCode('54000', { severity: 'ERROR', routine: 'GetNewMultiXactId' }),
  ...[
    'ReportResultError',
    'FinishRemoteTransactionPrepare',
    'MarkRemoteTransactionFailed',
    'CheckRemoteTransactionsHealth',
    'TransactionStateMachine',
    'ScheduleNextPlacementExecution',
  ].map((routine) => withCode('XX000', { severity: 'ERROR', routine })),
  // library-internals.spec.ts has the others of pg.
  new Error('Connection terminated unexpectedly'),
];
const REFUSED: unknown[] = withCodes('22001 22003 22021 22P02 22P05 23502 23505 23514 P0001');
const OURS = [
  ...withCodes(
    '28P01 3D000 55000 ECONNREFUSED 42601 42703 42P01 42501 0A000 XX000 26000 42P08 42P22',
  ),
  ...JSON.parse(
    '[null, "EPIPE", 42, {}, [], {"code": 53300}, {"message": "Connection terminated"}]',
  ),
  undefined,
  withCode(Symbol('code')),
  withCode('42501', { severity: 'ERROR', routine: 'aclcheck_error' }),
  // An index row that is too large.
  withCode('54000', { severity: 'ERROR', routine: '_bt_check_third_page' }),
  withCode('XX000', { message: 'server closed the connection unexpectedly', routine: 'elog' }),
  new Error('timeout exceeded when trying to connect'),
];

it.each([...UNAVAILABLE, ...REFUSED, ...OURS])('the database error %p means what it does', (it) => {
  expect(unavailableCause(it) !== undefined).toBe(UNAVAILABLE.includes(it));
  expect(isRefusedValue(it)).toBe(REFUSED.includes(it));
});

it.each([
  ['connection_lost', '08006 ECONNRESET ETIMEDOUT'],
  ['read_only', '25006'],
  ['disk_full', '53100'],
  ['conflict', '40001 40P01 55P03'],
  ['database_slow', '57014 25P04'],
  ['refused', '53300 53200 57P01 57P03 58030'],
])(
  'the cause of a 503 is %s for %s, also while a session is opened, or of TypeORM',
  (cause, codes) => {
    const errors = withCodes(codes).flatMap((error) => [
      error,
      new NoSessionError(error),
      new QueryFailedError('select 1', [], error as Error),
    ]);
    expect(errors.map(unavailableCause)).toEqual(errors.map(() => cause));
  },
);

it.each([
  [
    'no_session',
    new NoSessionError('All are in use'),
    new NoSessionError(withCode('ECONNREFUSED')),
  ],
  ['refused', new OperatorError('There is a pooler'), withCode('28P01', { severity: 'FATAL' })],
  ['read_only', new NoSessionError('The server is read-only', 'read_only')],
  [
    'database_slow',
    new SessionTimeoutError(250),
    new QueryFailedError('select 1', [], new SessionTimeoutError(250)),
  ],
  ['connection_lost', new Error('Connection terminated unexpectedly')],
])('the cause of a 503 is %s also without an SQLSTATE', (cause, ...errors) =>
  expect(errors.map(unavailableCause)).toEqual(errors.map(() => cause)),
);
