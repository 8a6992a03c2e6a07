import { Client } from 'pg';
import { isRefusedValue, isUnavailable, sqlState } from './database-error.js';

const withCode = (code: unknown, message = 'the reason') =>
  Object.assign(new Error(message), { code });

const list = (text: string) => text.split(' ');

/** What an error means: its SQLSTATE, whether the database cannot serve now, and whether a value was refused. */
const meaningOf = (error: unknown) => [
  sqlState(error),
  isUnavailable(error),
  isRefusedValue(error),
];

describe('a database error', () => {
  it.each([
    ...list('08000 08001 08003 08006 25006 25P04 28000 28P01 3D000 40001 40P01 53000 53100 53200'),
    ...list('53300 55000 55P03 57014 57P01 57P02 57P03 58000 58030 58P01'),
  ])('with SQLSTATE %s means that the database cannot serve now', (state) =>
    expect(meaningOf(withCode(state))).toEqual([state, true, false]),
  );

  it('of Citus about a lost worker means that the database cannot serve now', () => {
    const message = 'server closed the connection unexpectedly\n\tThis probably means …';
    expect(isUnavailable(withCode('XX000', message))).toBe(true);
  });

  it('with SQLSTATE 42501 means so only if it ended the connection: the role may not connect', () => {
    const ofStatement = Object.assign(withCode('42501'), { severity: 'ERROR' });
    expect(isUnavailable(ofStatement)).toBe(false);
    expect(isUnavailable(Object.assign(ofStatement, { severity: 'FATAL' }))).toBe(true);
  });

  it.each(list('22001 22003 22021 22P02 22P05 23502 23505 23514 P0001'))(
    'with SQLSTATE %s means that a value was refused',
    (state) => expect(meaningOf(withCode(state))).toEqual([state, false, true]),
  );

  it.each(list('42601 42703 42P01 42501 0A000 XX000 26000 42P08 42P22'))(
    'with SQLSTATE %s is a fault of the service',
    (state) => expect(meaningOf(withCode(state))).toEqual([state, false, false]),
  );

  it.each(list('ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH ENETUNREACH'))(
    'of the socket, %s, means that the database cannot serve now',
    (code) => expect(meaningOf(withCode(code))).toEqual([undefined, true, false]),
  );

  it.each([
    ['on a Unix socket', 'postgres:///animals?host=/nowhere'],
    ['on a port', 'postgres://127.0.0.1:1/animals'],
    ['on a host without an address', 'postgres://nowhere.invalid/animals'],
  ])('of a connection to nobody %s means that the database cannot serve now', async (_w, url) => {
    const error = await new Client({ connectionString: url }).connect().catch((fault) => fault);
    expect(isUnavailable(error)).toBe(true);
  });

  it.each([
    'timeout exceeded when trying to connect',
    'Connection terminated',
    'Connection terminated unexpectedly',
    'Connection terminated due to connection timeout',
    'Cannot use a pool after calling end on the pool',
    'Client has encountered a connection error and is not queryable',
    'Client was closed and is not queryable',
    'There was an error establishing an SSL connection',
  ])('of the driver, "%s", means that the database cannot serve now', (message) =>
    expect(isUnavailable(new Error(message))).toBe(true),
  );

  it.each([
    null,
    undefined,
    'ECONNREFUSED',
    42,
    {},
    [],
    { code: 53300 },
    { code: 'ENOENT' },
    { message: 'Connection terminated' },
    withCode(Symbol('code')),
    new Error('a bug'),
    new TypeError("Cannot read properties of undefined (reading 'id')"),
  ])('is not seen in %p', (error) => expect(meaningOf(error)).toEqual([undefined, false, false]));
});
