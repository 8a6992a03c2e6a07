import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withoutPassword } from './database-url.js';
import { Environment, readEnvironment } from './environment.js';
import { warningsOf } from './warnings.js';
import { OperatorError } from '../errors/operator-error.js';

const DB = 'postgres://u:p@db.example/animals';

function faultsOf(variables: Record<string, string>): string[] {
  try {
    readEnvironment(variables);
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(OperatorError);
    return (error as Error).message.split('\n');
  }
}

/** Each variable that has a default, the default, and values with what is read from them. */
const READ: Record<string, [unknown, Record<string, unknown>]> = {
  NODE_ENV: ['development', { production: 'production', test: 'test' }],
  DEPLOYMENT_ENVIRONMENT: [undefined, { staging: 'staging' }],
  HOST: ['127.0.0.1', { '::': '::' }],
  PORT: [3000, { 0: 0, 65535: 65535 }],
  METRICS_PORT: [undefined, { 0: 0, 9464: 9464 }],
  DATABASE_URL: [undefined, { [DB]: DB }],
  DATABASE_URL_FILE: [undefined, {}],
  DATABASE_READ_URL: [undefined, { 'postgres://a:1,b/x?ssl=0': 'postgres://a:1,b/x?ssl=0' }],
  DATABASE_READ_URL_FILE: [undefined, {}],
  DATABASE_POOL_SIZE: [10, { 2: 2, 100: 100 }],
  DATABASE_POOLER: [undefined, { transaction: 'transaction' }],
  DRAIN_SECONDS: [2, { 0: 0, 60: 60 }],
  MIGRATE_ON_START: [false, { true: true, false: false }],
  PUBLIC_BASE_URL: [undefined, { 'https://a.example/v1': 'https://a.example/v1' }],
  STAGING_BASE_URL: [undefined, { 'http://[::1]:8/v1': 'http://[::1]:8/v1' }],
  RATE_LIMIT_PER_MINUTE: [undefined, { 1: 1, 1000000: 1_000_000 }],
  CORS_ORIGINS: [
    undefined,
    { '*': ['*'], 'https://a.b, http://[::1]:3000': ['https://a.b', 'http://[::1]:3000'] },
  ],
  TRUST_PROXY: [undefined, { 1: 1, 99: 99, '10.0.0.0/8, ::1/128': '10.0.0.0/8, ::1/128' }],
  DOCS: ['on', { off: 'off' }],
  LOG_LEVEL: ['info', { silent: 'silent' }],
  COMMIT: [undefined, { '0123abc': '0123abc' }],
};
const DEFAULTS = Object.fromEntries(Object.entries(READ).map(([name, [value]]) => [name, value]));

/** Invalid values, separated by spaces. */
const REFUSED: Record<string, string> = {
  NODE_ENV: 'Production staging',
  DEPLOYMENT_ENVIRONMENT: 'Production',
  PORT: '-1 65536 0x50',
  METRICS_PORT: 'on 65536',
  DATABASE_POOL_SIZE: '1 101 Infinity',
  DATABASE_POOLER: 'session',
  DRAIN_SECONDS: '61 0.5',
  MIGRATE_ON_START: 'yes toString',
  PUBLIC_BASE_URL:
    'animals.example/v1 https://a.example https://a.example/v1/ https://a"b>c/v1 ' +
    'https://a.example/v1?x=/v1 https://\u0436.example/v1 https://u:p@a.example/v1',
  STAGING_BASE_URL: 'https://a.example',
  RATE_LIMIT_PER_MINUTE: '0 1000001 unlimited',
  CORS_ORIGINS:
    'app.example https://a.example/ https://a.example:443 https://*.example null ' +
    'https://a.example,* https://a.example,',
  TRUST_PROXY: 'true 100 1,2 10.0.0.0/0 10.0.0.0/33 ::1/8/8 proxy.example',
  DOCS: 'true',
  LOG_LEVEL: 'loud',
  COMMIT: 'main',
};
describe('readEnvironment', () => {
  it('has defaults, also for an empty variable, and reads no other variable', () => {
    const empty = Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, '']));
    expect(Object.keys(new Environment())).toEqual(Object.keys(DEFAULTS));
    expect({ ...readEnvironment({ HOME: '/root' }) }).toEqual(DEFAULTS);
    expect({ ...readEnvironment(empty) }).toEqual(DEFAULTS);
  });

  it.each(Object.entries(READ))('reads %s', (name, [, values]) => {
    for (const [text, read] of Object.entries(values)) {
      expect(readEnvironment({ DATABASE_URL: DB, [name]: text })).toHaveProperty(name, read);
    }
  });

  it.each(Object.entries(REFUSED))('refuses %s=%s by one line that names it', (name, values) => {
    for (const value of [...values.split(' '), ...(name === 'PORT' ? [' '] : [])]) {
      const faults = faultsOf({ [name]: value });
      expect([value, ...faults]).toEqual([value, expect.stringMatching(`^${name} must be `)]);
    }
  });

  it('names all errors together and shows no value', () => {
    const wrong = { NODE_ENV: 'production', PORT: 'sekrit', LOG_LEVEL: 'sekrit' };
    const faults = faultsOf({ ...wrong, DATABASE_URL: 'sekrit', METRICS_PORT: 'sekrit' });
    const names = faults.map((fault) => fault.split(' ')[0]);
    expect(names).toEqual(['PORT', 'METRICS_PORT', 'DATABASE_URL', 'LOG_LEVEL']);
    expect(faults.join()).not.toContain('sekrit');
    expect(faultsOf(wrong)).toHaveLength(3);
  });

  const STAGING = {
    PUBLIC_BASE_URL: 'https://Staging.example:443/v1',
    STAGING_BASE_URL: 'https://staging.example/v1',
  };
  it.each<[Record<string, string>, string | undefined]>([
    [{ NODE_ENV: 'production' }, 'DATABASE_URL must be set when NODE_ENV is production'],
    [{ NODE_ENV: 'test' }, undefined],
    [{ DATABASE_POOLER: 'transaction' }, 'DATABASE_POOLER requires DATABASE_URL'],
    [{ DATABASE_READ_URL: DB }, 'DATABASE_READ_URL requires DATABASE_URL'],
    [{ PORT: '3000', METRICS_PORT: '3000' }, 'METRICS_PORT must not be the same as PORT'],
    [{ METRICS_PORT: '3000' }, 'METRICS_PORT must not be the same as PORT'],
    [{ PORT: '0', METRICS_PORT: '0' }, undefined],
    [STAGING, 'DEPLOYMENT_ENVIRONMENT must be staging when'],
    [{ ...STAGING, DEPLOYMENT_ENVIRONMENT: 'staging' }, undefined],
    [{ DATABASE_URL: DB, PGSSLMODE: 'verify-full' }, 'PGSSLMODE is ignored: set the parameter'],
    [{ DATABASE_URL: `${DB}?sslmode=disable`, PGSSLMODE: 'require' }, undefined],
    [{ DATABASE_URL: DB, PGSSLMODE: 'prefer' }, undefined],
    [{ DATABASE_URL: `${DB}?sslrootcert=/ca.pem`, PGSSLMODE: 'require' }, undefined],
    [{ PGSSLMODE: 'require' }, undefined],
  ])('of %j says: %s', (variables, fault) => {
    expect(faultsOf(variables)).toEqual(fault ? [expect.stringMatching(`^${fault}`)] : []);
  });

  it.each([
    [{}, 'development'],
    [{ NODE_ENV: 'production' }, 'production'],
    [{ NODE_ENV: 'production', DEPLOYMENT_ENVIRONMENT: 'staging' }, 'staging'],
    [{ DEPLOYMENT_ENVIRONMENT: 'production' }, 'production'],
  ])('reads from %j that this is %s', (variables, deployment) => {
    expect(readEnvironment({ DATABASE_URL: DB, ...variables }).deployment).toBe(deployment);
  });

  it('reads DATABASE_URL and DATABASE_READ_URL from files, and judges them as the variables', () => {
    const folder = mkdtempSync(join(tmpdir(), 'animal-store-secret-'));
    const FILE = join(folder, 'url');
    writeFileSync(FILE, `${DB}\n`);
    const both = { DATABASE_URL_FILE: FILE, DATABASE_READ_URL_FILE: FILE, DATABASE_URL: '' };
    expect(readEnvironment(both)).toMatchObject({ DATABASE_URL: DB, DATABASE_READ_URL: DB });
    const faultOf = (variables: Record<string, string>) => {
      const needy = { NODE_ENV: 'production', DATABASE_POOLER: 'transaction' };
      const faults = faultsOf({ ...needy, ...variables });
      expect(faults).toHaveLength(1);
      expect(faults[0]).not.toContain('sekrit');
      return faults[0];
    };
    expect(faultOf({ DATABASE_URL: DB, DATABASE_URL_FILE: FILE })).toBe(
      'DATABASE_URL_FILE must not be set beside DATABASE_URL',
    );
    expect(faultOf({ DATABASE_URL_FILE: 'postgres://sekrit' })).toBe(
      'DATABASE_URL_FILE must name a file that this process can read: ENOENT',
    );
    writeFileSync(FILE, '\n');
    expect(faultOf({ DATABASE_URL_FILE: FILE })).toMatch(/^DATABASE_URL_FILE .* not empty$/);
    writeFileSync(FILE, 'sekrit');
    expect(faultOf({ DATABASE_URL_FILE: FILE })).toMatch(/^DATABASE_URL must be a postgres:/);
    rmSync(folder, { recursive: true });
  });
});

describe('DATABASE_URL', () => {
  const NOT_A_URL = 'be a postgres:// URL';
  const SEVERAL = 'postgres://u:p@a.example,b.example:5433/animals';

  it.each([
    ['mysql://u:sekrit@db.example/animals', NOT_A_URL],
    ['sekrit', NOT_A_URL],
    ['postgres://u:se/krit@db.example/animals', NOT_A_URL],
    ['postgres://u:12?sekrit@db.example/animals', 'not have some of its parameters'],
    ['postgres://u:p@db.example:sekrit/animals', NOT_A_URL],
    [`${DB}?sslmode=disabled`, 'have a parameter sslmode that matches disable|verify-full|'],
    [`${DB}?sslmode=allow`, 'have a parameter sslmode '],
    [`${DB}?sslmode=verif%79-ca`, 'have a parameter sslmode '],
    [`${DB}?application_name=x&sslMode=require`, 'not have the parameter sslMode; it may have '],
    [`${DB}?ssl=false`, 'have a parameter ssl '],
    [`${DB}?sslnegotiation=drect`, 'have a parameter sslnegotiation that matches postgres|direct'],
    [`${DB}?sslmode=verify-full&sslmode=disable`, 'have each parameter once'],
    [`${DB}?ssl=true&sslmode=disable`, 'have each parameter once, and not both ssl and sslmode'],
    [`${DB}?uselibpqcompat=true&sslmode=require`, 'not have the parameter uselibpqcompat'],
    [`${DB}?connect_timeout=3`, 'not have the parameter connect_timeout'],
    [`${DB}?hasOwnProperty=host`, 'not have the parameter hasOwnProperty'],
    [`${DB}?port=x`, 'have a parameter port '],
    [`${DB}?target_session_attrs=any`, 'have a parameter target_session_attrs that matches read'],
    [SEVERAL, 'have target_session_attrs=read-write, because it names several hosts'],
    ['postgres://u:p,@a.example:1,b.example:2/x?sslmode=disable', 'have target_session_attrs='],
  ])('is refused as %s, and the message says what is wrong: it must %s', (DATABASE_URL, what) => {
    const [fault, ...others] = faultsOf({ DATABASE_URL });
    expect([fault!.slice(0, 18 + what.length), others]).toEqual([`DATABASE_URL must ${what}`, []]);
    expect(fault).not.toMatch(/sekrit|krit/);
  });

  it.each([
    [DB.replace('u:p', 'u:p,q'), 'a comma in the password'],
    [`${SEVERAL}?target_session_attrs=read-write`, 'several hosts, one of them for writes'],
    [`${DB}?sslmode=no-verify&application_name=x&options=-c%20search_path%3Danimals`, '…'],
    [`${DB}?sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem`, 'TLS'],
    [`${DB}?ssl=true&sslnegotiation=direct`, 'TLS at once'],
    [`${DB}?host=/run/pg&port=5433&user=u&password=p@q`, 'the address in parameters'],
    ['postgres://%2Frun%2Fpg/db', 'a socket in place of the host'],
  ])('may be %s: %s', (DATABASE_URL) => {
    expect(readEnvironment({ DATABASE_URL })).toMatchObject({ DATABASE_URL });
  });

  it('has no parameter target_session_attrs as DATABASE_READ_URL, and valid hosts', () => {
    const faultOf = (DATABASE_READ_URL: string) =>
      faultsOf({ DATABASE_URL: DB, DATABASE_READ_URL });
    expect(faultOf(SEVERAL)).toEqual([]);
    for (const [url, fault] of [
      [`${SEVERAL}?target_session_attrs=read-write`, 'not have the parameter target_session_attrs'],
      [SEVERAL.replace('5433', 'port'), NOT_A_URL],
    ] as const) {
      expect(faultOf(url)).toEqual([expect.stringMatching(`^DATABASE_READ_URL must ${fault}`)]);
    }
  });

  it.each([
    ['postgres://u@/db?host=/run/pg', 'postgres:///db?host=/run/pg&user=u'],
    [
      'postgres://u:p%2F+@:5433/db?host=/run/pg',
      'postgres:///db?host=/run/pg&user=u&password=p%2F%2B&port=5433',
    ],
    ['postgres://u@?host=/run/pg', 'postgres:///?host=/run/pg&user=u'],
    ...['prefer', 'require', 'verify-ca'].map((mode) => [
      `${DB}?sslcert=/c.pem&sslmode=${mode}`,
      `${DB}?sslcert=/c.pem&sslmode=verify-full`,
    ]),
  ])('of the form %s is read as %s', (url, read) => {
    const both = { DATABASE_URL: read, DATABASE_READ_URL: read };
    expect(readEnvironment({ DATABASE_URL: url!, DATABASE_READ_URL: url! })).toMatchObject(both);
  });

  it.each([
    ['postgres://u:sek:rit@db.example:5433/x', 'postgres://u:***@db.example:5433/x'],
    ['postgres://u@db.example/x?ssl=0', 'postgres://u@db.example/x?ssl=0'],
    ['postgres://db.example/x?p%61ssword=sekrit&password=sekrit', 'db.example/x?password=***'],
    ['postgres://one:sekrit@one:1,two:2/x?ssl=0', 'postgres://one:***@one:1,two:2/x?ssl=0'],
    ['postgres://one:1,two:2/x?password=sekrit', 'one:1,two:2/x?password=***'],
  ])('%s is shown without its password', (url, shown) => {
    expect(withoutPassword(url)).toContain(shown);
    expect(withoutPassword(url)).not.toMatch(/sek|rit/);
  });
});

describe('a warning', () => {
  const warningsFor = (name: string) => warningsOf({ [name]: 'sekrit' }, Object.keys(DEFAULTS));

  it.each([
    ['DATABSE_POOL_SIZE', 'DATABASE_POOL_SIZE'],
    ['DATABASE_POOLSIZE', 'DATABASE_POOL_SIZE'],
    ['DATABASE_URI', 'DATABASE_URL'],
    ['CORS_ORIGIN', 'CORS_ORIGINS'],
    ['TRUST_PROXIES', 'TRUST_PROXY'],
    ['METRICS_PROT', 'METRICS_PORT'],
    ['RATE_LIMIT_PER_MIN', 'RATE_LIMIT_PER_MINUTE'],
    ['NODE_EVN', 'NODE_ENV'],
    ['PORTS', 'PORT'],
  ])('says that %s is not read, and names %s', (name, meant) => {
    expect(warningsFor(name)).toEqual([`${name} is not read. Is it meant to be ${meant}?`]);
    expect(warningsOf({ [name]: '' }, Object.keys(DEFAULTS))).toEqual([]);
  });

  it.each(['PGSSLMODE', 'PGSSLROOTCERT'])('says that %s is ignored', (name) => {
    expect(warningsFor(name)).toEqual([expect.stringMatching(`^${name} is ignored: only the`)]);
  });

  it('is not given for a variable that is read, or belongs to other software', () => {
    const names =
      'DATABASE_HOST DATABASE_PORT DATABASE_USER DATABASE_NAME DATABASE_PASSWORD HOSTNAME HOME PATH ' +
      'NODE_PATH NODE_OPTIONS PGHOST PGPASSWORD DATABASE_URL_UNPOOLED METRICS_SERVICE_HOST GRAFANA_PORT';
    expect([...names.split(' '), ...Object.keys(DEFAULTS)].flatMap(warningsFor)).toEqual([]);
  });
});
