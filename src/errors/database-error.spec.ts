import { Client } from 'pg';
import { isRefusedValue, isUnavailable, sqlState } from './database-error.js';

const withCode = (code: unknown, more = {}) => Object.assign(new Error('why'), { code, ...more });
const withCodes = (codes: string) => codes.split(' ').map((code) => withCode(code));

const UNAVAILABLE: unknown[] = [
  ...withCodes('08000 08001 08003 08006 25006 25P04 28000 28P01 3D000 40001 40P01 53000 53100'),
  ...withCodes('53200 53300 55000 55P03 57014 57P01 57P02 57P03 58000 58030 58P01'),
  ...withCodes('ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH ENETUNREACH'),
  // The role may not connect; Citus lost a worker.
  withCode('42501', { severity: 'FATAL' }),
  withCode('XX000', { message: 'server closed the connection unexpectedly\n\tThis means …' }),
  ...[
    'timeout exceeded when trying to connect',
    'Connection terminated due to connection timeout',
    'Cannot use a pool after calling end on the pool',
    'Client has encountered a connection error and is not queryable',
    'Client was closed and is not queryable',
    'There was an error establishing an SSL connection',
  ].map((message) => new Error(message)),
];
const REFUSED: unknown[] = withCodes('22001 22003 22021 22P02 22P05 23502 23505 23514 P0001');
const OURS = [
  ...withCodes('42601 42703 42P01 42501 0A000 XX000 26000 42P08 42P22'),
  ...JSON.parse(
    '[null, "EPIPE", 42, {}, [], {"code": 53300}, {"message": "Connection terminated"}]',
  ),
  undefined,
  withCode(Symbol('code')),
  withCode('42501', { severity: 'ERROR' }),
];

it.each([...UNAVAILABLE, ...REFUSED, ...OURS])('the database error %p means what it does', (it) => {
  expect(isUnavailable(it)).toBe(UNAVAILABLE.includes(it));
  expect(isRefusedValue(it)).toBe(REFUSED.includes(it));
});

it.each([
  ['on a Unix socket', 'postgres:///animals?host=/nowhere'],
  ['on a port', 'postgres://127.0.0.1:1/animals'],
  ['on a host without an address', 'postgres://nowhere.invalid/animals'],
])('a connection to nobody %s means that the database is unavailable', async (_w, url) => {
  const error = await new Client({ connectionString: url }).connect().catch((fault) => fault);
  expect(isUnavailable(error)).toBe(true);
});

it('an error that PostgreSQL raised has a SQLSTATE, and no other', () => {
  const states = ['57P01', '25006', 'ECONNRESET', 'EPIPE', 53300].map((it) =>
    sqlState({ code: it }),
  );
  expect(states).toEqual(['57P01', '25006', undefined, undefined, undefined]);
});
