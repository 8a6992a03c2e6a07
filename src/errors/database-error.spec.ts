import { Client } from 'pg';
import { isRefusedValue, isUnavailable, sqlState } from './database-error.js';

const failure = (code: string) => Object.assign(new Error('the reason'), { code });

const UNAVAILABLE = [
  '08000',
  '08001',
  '08003',
  '08006',
  '25006',
  '25P04',
  '28000',
  '28P01',
  '3D000',
  '40001',
  '40P01',
  '53000',
  '53100',
  '53200',
  '53300',
  '55000',
  '55P03',
  '57014',
  '57P01',
  '57P02',
  '57P03',
  '58000',
  '58030',
  '58P01',
];
const REFUSED_VALUE = [
  '22001',
  '22003',
  '22021',
  '22P02',
  '22P05',
  '23502',
  '23505',
  '23514',
  'P0001',
];
const OUR_FAULT = '42601 42703 42P01 42501 0A000 XX000 26000 42P08 42P22'.split(' ');

describe('a database error', () => {
  it.each(UNAVAILABLE)('with SQLSTATE %s means that the database cannot serve now', (state) => {
    const error = failure(state);
    expect([sqlState(error), isUnavailable(error)]).toEqual([state, true]);
    expect(isRefusedValue(error)).toBe(false);
  });

  it('of Citus about a lost worker means that the database cannot serve now', () => {
    const error = new Error('server closed the connection unexpectedly\n\tThis probably means …');
    expect(isUnavailable(Object.assign(error, { code: 'XX000' }))).toBe(true);
  });

  it.each(REFUSED_VALUE)('with SQLSTATE %s means that a value was refused', (state) => {
    const error = failure(state);
    expect([sqlState(error), isRefusedValue(error)]).toEqual([state, true]);
    expect(isUnavailable(error)).toBe(false);
  });

  it.each(OUR_FAULT)('with SQLSTATE %s is a fault of the service', (state) => {
    const error = failure(state);
    expect([sqlState(error), isUnavailable(error)]).toEqual([state, false]);
    expect(isRefusedValue(error)).toBe(false);
  });

  it.each([
    'ECONNREFUSED',
    'ECONNRESET',
    'ECONNABORTED',
    'EPIPE',
    'ETIMEDOUT',
    'EHOSTUNREACH',
    'ENETUNREACH',
  ])('of the socket, %s, means that the database cannot serve now', (code) => {
    const error = failure(code);
    expect([sqlState(error), isUnavailable(error)]).toEqual([undefined, true]);
    expect(isRefusedValue(error)).toBe(false);
  });

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
  ])('of the driver, "%s", means that the database cannot serve now', (message) => {
    expect(isUnavailable(new Error(message))).toBe(true);
  });

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
    new Error('a bug'),
    new TypeError("Cannot read properties of undefined (reading 'id')"),
  ])('is not seen in %p', (fault) => {
    expect(sqlState(fault)).toBeUndefined();
    expect(isUnavailable(fault)).toBe(false);
    expect(isRefusedValue(fault)).toBe(false);
  });
});
