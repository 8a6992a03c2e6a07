import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  Environment,
  loadEnvironment,
  readEnvironment,
  secretOf,
  warningsOf,
} from '../../src/config/environment.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const DB = 'postgres://u:p@db.example/animals';
/** As long as the name of a commit may be. */
const SHA256 = '0123456789abcdef'.repeat(4);
const SEVERAL = 'postgres://u:p@a.example,b.example:5433/animals';
/** Of these, the service uses one if they are in DATABASE_URL, and each in DATABASE_READ_URL. */
const WRITABLE = `${SEVERAL}?target_session_attrs=read-write`;

function faultsOf(variables: Record<string, string>): string[] {
  try {
    readEnvironment(variables);
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(OperatorError);
    return (error as Error).message.split('\n');
  }
}

/** Each variable: its default, valid values with what is read, and invalid values, separated by spaces. */
const VARIABLES: Record<string, [unknown, Record<string, unknown>, string?]> = {
  NODE_ENV: ['development', { production: 'production', test: 'test' }, 'Production staging'],
  DEPLOYMENT_ENVIRONMENT: [
    undefined,
    { production: 'production', staging: 'staging', development: 'development' },
    'Production test',
  ],
  HOST: ['127.0.0.1', { '::': '::', '[::1]': '::1', '*': '*' }],
  PORT: [3000, { 0: 0, 65535: 65535 }, '-1 65536 0x50 \t'],
  METRICS_PORT: [undefined, { 0: 0, 9464: 9464 }, 'on 65536'],
  KEEP_ALIVE_SECONDS: [620, { 1: 1, 3660: 3660, 86400: 86_400 }, '0 86401 65s'],
  DATABASE_URL: [undefined, { [DB]: DB }],
  DATABASE_URL_FILE: [undefined, {}],
  DATABASE_READ_URL: [undefined, { 'postgres://a:1,b/x?ssl=0': 'postgres://a:1,b/x?ssl=0' }],
  DATABASE_READ_URL_FILE: [undefined, {}],
  DATABASE_POOL_SIZE: [10, { 2: 2, 100: 100 }, '1 101 Infinity'],
  DATABASE_POOLER: [undefined, { transaction: 'transaction' }, 'session'],
  DRAIN_SECONDS: [2, { 0: 0, 60: 60 }, '61 0.5'],
  MIGRATE_ON_START: [false, { true: true, false: false }, 'yes toString'],
  PUBLIC_BASE_URL: [
    undefined,
    { 'https://a.example/v1': 'https://a.example/v1' },
    'animals.example/v1 https://a.example https://a.example/v1/ https://a"b>c/v1 ' +
      'https://a.example/v1?x=/v1 https://\u0436.example/v1 https://u:p@a.example/v1',
  ],
  STAGING_BASE_URL: [undefined, { 'http://[::1]:8/v1': 'http://[::1]:8/v1' }, 'https://a.example'],
  RATE_LIMIT_PER_MINUTE: [undefined, { 1: 1, 1000000: 1_000_000 }, '0 1000001 unlimited'],
  CORS_ORIGINS: [
    undefined,
    {
      '*': ['*'],
      'https://a.b, http://[::1]:3000': ['https://a.b', 'http://[::1]:3000'],
      'capacitor://localhost,moz-extension://7ab1-c2': [
        'capacitor://localhost',
        'moz-extension://7ab1-c2',
      ],
    },
    'app.example capacitor://localhost/ Tauri://localhost ionic://* capacitor:// javascript:x https://a.example/ https://a.example:443 https://*.example null ' +
      'https://a.example,* https://a.example,',
  ],
  TRUST_PROXY: [
    undefined,
    { 1: 1, 99: 99, '10.0.0.0/8, ::1/128': '10.0.0.0/8, ::1/128' },
    'true 0 100 1,2 10.0.0.0/0 10.0.0.0/33 ::1/129 ::1/8/8 proxy.example ::1,proxy.example',
  ],
  DOCS: ['on', { off: 'off' }, 'true'],
  LOG_LEVEL: ['info', { silent: 'silent' }, 'loud'],
  COMMIT: [undefined, { '0123abc': '0123abc', [SHA256]: SHA256 }, `main 0123ab ${SHA256}0`],
};
const DEFAULTS = Object.fromEntries(Object.entries(VARIABLES).map(([name, [it]]) => [name, it]));

describe('readEnvironment', () => {
  it('has defaults, also for an empty variable, and reads no other variable', () => {
    const empty = Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, '']));
    expect(Object.keys(new Environment())).toEqual(Object.keys(DEFAULTS));
    expect({ ...readEnvironment({ HOME: '/root' }) }).toEqual(DEFAULTS);
    expect({ ...readEnvironment(empty) }).toEqual(DEFAULTS);
  });

  it.each(Object.entries(VARIABLES))(
    'reads %s, or refuses it by one line that names it',
    (name, [, values, wrong]) => {
      for (const [text, read] of Object.entries(values)) {
        expect(readEnvironment({ DATABASE_URL: DB, [name]: text })).toHaveProperty(name, read);
      }
      for (const value of wrong?.split(' ') ?? []) {
        const faults = faultsOf({ [name]: value });
        expect([value, ...faults]).toEqual([value, expect.stringMatching(`^${name} must be `)]);
      }
    },
  );

  it('names all errors together and shows no value', () => {
    const wrong = { NODE_ENV: 'production', PORT: 'sekrit', LOG_LEVEL: 'sekrit' };
    const faults = faultsOf({ ...wrong, DATABASE_URL: 'sekrit', METRICS_PORT: 'sekrit' });
    const names = faults.map((fault) => fault.split(' ')[0]);
    expect(names).toEqual(['PORT', 'METRICS_PORT', 'DATABASE_URL', 'LOG_LEVEL']);
    expect(faults.join()).not.toContain('sekrit');
    expect(faultsOf(wrong)).toHaveLength(3);
  });

  it.each<[Record<string, string>, string | undefined]>([
    [{ NODE_ENV: 'production' }, 'DATABASE_URL must be set when NODE_ENV is production'],
    [{ DATABASE_POOLER: 'transaction' }, 'DATABASE_POOLER requires DATABASE_URL'],
    [{ DATABASE_READ_URL: DB }, 'DATABASE_READ_URL requires DATABASE_URL'],
    [{ DATABASE_URL: DB, DATABASE_READ_URL: SEVERAL }, undefined],
    [{ DATABASE_URL: DB, DATABASE_READ_URL: WRITABLE }, 'DATABASE_READ_URL must not have the para'],
    ...['//animals:#pass@db:5432/animals', '//animals:12#pass@db/animals', '//db/animals#pass'].map(
      (rest): [Record<string, string>, string] => [
        { DATABASE_URL: `postgres:${rest}` },
        'DATABASE_URL must be a postgres:// URL with a percent-encoded password',
      ],
    ),
    [{ DATABASE_URL: `${DB}?schema=x` }, 'DATABASE_URL must not have the parameter schema; it may'],
    [{ METRICS_PORT: '3000' }, 'METRICS_PORT must not be the same as PORT'],
    [{ PORT: '0', METRICS_PORT: '0' }, undefined],
    [{ DATABASE_URL: DB, PGSSLMODE: 'require' }, 'PGSSLMODE is ignored: set the parameter sslmode'],
    [
      { DATABASE_URL: DB, PGSSLMODE: 'verify-ca' },
      'PGSSLMODE is ignored: set the parameter sslmode',
    ],
    [{ DATABASE_URL: DB, PGSSLMODE: 'verify-full' }, 'PGSSLMODE is ignored: set the parameter ssl'],
    [
      { DATABASE_URL: `${DB}?ssl=1`, DATABASE_READ_URL: DB, PGSSLMODE: 'require' },
      'PGSSLMODE is ignored: set the parameter sslmode',
    ],
    [{ DATABASE_URL: `${DB}?sslmode=disable`, PGSSLMODE: 'verify-full' }, undefined],
    [{ DATABASE_URL: DB, PGSSLMODE: 'prefer', PGSSLROOTCERT: '/ca.pem' }, undefined],
  ])('of %j says: %s', (variables, fault) => {
    expect(faultsOf(variables)).toEqual(fault ? [expect.stringMatching(`^${fault}`)] : []);
  });

  it('warns of a variable that is almost one that it reads, not of those of other software', () => {
    const others = 'DATABASE_HOST DATABASE_USER DATABASE_NAME HOSTNAME HOME PATH NODE_PATH PGHOST';
    const meant = { DATABSE_POOL_SIZE: 'DATABASE_POOL_SIZE', CORS_ORIGIN: 'CORS_ORIGINS' };
    const misspelled = { ...meant, NODE_EVN: 'NODE_ENV', PORTS: 'PORT' };
    const names = [...Object.keys(misspelled), ...others.split(' '), ...Object.keys(DEFAULTS)];
    expect(warningsOf(Object.fromEntries(names.map((name) => [name, 'x'])))).toEqual(
      Object.entries(misspelled).map(
        ([name, it]) => `${name} is not read. Is it meant to be ${it}?`,
      ),
    );
  });

  it.each(['PGSSLMODE', 'PGSSLROOTCERT', 'PGSSLCERT', 'PGSSLKEY', 'PGSSLNEGOTIATION'])(
    'warns of %s, which then configures no connection',
    (name) => {
      const { env } = process;
      const told = jest.spyOn(console, 'error').mockImplementation();
      Object.assign(process, { env: { DATABASE_URL: DB, [name]: 'prefer' } });
      try {
        loadEnvironment();
        expect(process.env).not.toHaveProperty(name);
        expect(told.mock.calls).toEqual([[expect.stringMatching(`^${name} is ignored`)]]);
      } finally {
        Object.assign(process, { env });
        told.mockRestore();
      }
    },
  );

  it('reads DATABASE_URL and DATABASE_READ_URL from files, and judges them as the variables', async () => {
    const folder = await temporaryFolder();
    const FILE = join(folder, 'url');
    writeFileSync(FILE, `\uFEFF${DB}\r\n`);
    const both = { DATABASE_URL_FILE: FILE, DATABASE_READ_URL_FILE: FILE, DATABASE_URL: '' };
    expect(readEnvironment(both)).toMatchObject({ DATABASE_URL: DB, DATABASE_READ_URL: DB });
    for (const [content, variables, fault] of [
      [DB, { DATABASE_URL: DB }, 'DATABASE_URL_FILE must not be set beside DATABASE_URL'],
      [DB, { DATABASE_URL_FILE: 'postgres://sekrit' }, 'DATABASE_URL_FILE must .* read: ENOENT'],
      ['\n', {}, 'DATABASE_URL_FILE must name a file that is not empty'],
      ['sekrit', {}, 'DATABASE_URL must be a postgres:'],
      [
        Buffer.from('postgres://u:sekrit\xE9@h/x', 'latin1'),
        {},
        'DATABASE_URL_FILE must .* read: ERR',
      ],
    ] as const) {
      writeFileSync(FILE, content);
      const needy = { NODE_ENV: 'production', DATABASE_POOLER: 'transaction' };
      const faults = faultsOf({ ...needy, DATABASE_URL_FILE: FILE, ...variables });
      expect(faults).toEqual([expect.stringMatching(`^${fault}`)]);
      expect(faults[0]).not.toContain('sekrit');
    }
    // A secret may end with a space.
    writeFileSync(FILE, ' sekrit \n');
    expect(secretOf('LOCAL_API_KEY', { LOCAL_API_KEY_FILE: FILE })).toBe(' sekrit ');
  });
});

describe('DATABASE_URL', () => {
  const NOT_A_URL = 'be a postgres:// URL';

  it.each([
    ['mysql://u:sekrit@db.example/animals', NOT_A_URL],
    ['postgres://u:se/krit@db.example/animals', NOT_A_URL],
    ['postgres://u:12?sekrit@db.example/animals', 'not have some of its parameters'],
    ['postgres://u:p@db.example:sekrit/animals', NOT_A_URL],
    ['postgres://u:p@a.example,db.example:sekrit/x?target_session_attrs=read-write', NOT_A_URL],
    [`${DB}?sslmode=disabled`, 'have a parameter sslmode that matches disable|verify-full|'],
    [`${DB}?ssl=no`, 'have a parameter ssl that matches true|1|0'],
    [`${DB}?port=5432x`, 'have a parameter port that matches '],
    [`${DB}?target_session_attrs=any`, 'have a parameter target_session_attrs that matches read-w'],
    [`${DB}?sslnegotiation=none`, 'have a parameter sslnegotiation that matches postgres|direct'],
    [`${DB}?application_name=x&sslMode=require`, 'not have the parameter sslMode; it may have '],
    [`${DB}?sslmode=verify-full&sslmode=disable`, 'have each parameter once'],
    [`${DB}?ssl=true&sslmode=disable`, 'have each parameter once, and not both ssl and sslmode'],
    [SEVERAL, 'have target_session_attrs=read-write, because it names several hosts'],
  ])('is refused as %s, and the message says what is wrong: it must %s', (DATABASE_URL, what) => {
    const [fault, ...others] = faultsOf({ DATABASE_URL });
    expect([fault!.slice(0, 18 + what.length), others]).toEqual([`DATABASE_URL must ${what}`, []]);
    expect(fault).not.toMatch(/sekrit|krit/);
  });

  it.each([
    [DB.replace('u:p', 'u:p,q')],
    [WRITABLE],
    [`${DB}?sslmode=no-verify&application_name=x&options=-c%20search_path%3Danimals`],
    [`${DB}?sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem`],
    [`${DB}?ssl=true&sslnegotiation=direct`],
    [`${DB}?host=/run/pg&port=5433&user=u&password=p@q`],
    ['postgres://%2Frun%2Fpg/db'],
    ['postgres://u:p@/db?host=/run/pg', 'postgres://u:p@localhost/db?host=/run/pg'],
    ['postgres://u@:5433/db?host=/run', 'postgres://u@localhost:5433/db?host=/run'],
    ['postgres://u@?host=/run/pg', 'postgres://u@localhost?host=/run/pg'],
    [`${DB}?sslmode=prefer&sslcert=/c.pem`, `${DB}?sslmode=verify-full&sslcert=/c.pem`],
    [`${DB}?sslcert=/c.pem&sslmode=require`, `${DB}?sslcert=/c.pem&sslmode=verify-full`],
    [`${DB}?sslmode=verify-ca`, `${DB}?sslmode=verify-full`],
    [`${DB}?sslrootcert=system`, `${DB}?sslmode=verify-full`],
    [`${DB}?sslmode=require&port=1&sslrootcert=system`, `${DB}?sslmode=verify-full&port=1`],
  ])('may be %s', (url, read = url) => {
    expect(readEnvironment({ DATABASE_URL: url }).DATABASE_URL).toBe(read);
  });
});
