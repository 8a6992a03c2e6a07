import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { withoutPassword } from './database-url.js';
import { readEnvironment } from './environment.js';
import { OperatorError } from '../errors/operator-error.js';

const DEFAULTS = {
  NODE_ENV: 'development',
  DEPLOYMENT_ENVIRONMENT: undefined,
  HOST: '127.0.0.1',
  PORT: 3000,
  METRICS_PORT: undefined,
  DATABASE_URL: undefined,
  DATABASE_URL_FILE: undefined,
  DATABASE_READ_URL: undefined,
  DATABASE_READ_URL_FILE: undefined,
  DATABASE_POOL_SIZE: 10,
  DATABASE_POOLER: undefined,
  DRAIN_SECONDS: 2,
  MIGRATE_ON_START: false,
  PUBLIC_BASE_URL: undefined,
  STAGING_BASE_URL: undefined,
  RATE_LIMIT_PER_MINUTE: undefined,
  CORS_ORIGINS: undefined,
  TRUST_PROXY: undefined,
  DOCS: 'on',
  LOG_LEVEL: 'info',
  COMMIT: undefined,
};

function faultsOf(variables: Record<string, string>): string[] {
  try {
    readEnvironment(variables);
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(OperatorError);
    return (error as Error).message.split('\n');
  }
}

describe('readEnvironment', () => {
  it('has defaults', () => {
    expect({ ...readEnvironment({}) }).toEqual(DEFAULTS);
  });

  it('takes an empty variable as one that is not set', () => {
    const empty = Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, '']));
    expect({ ...readEnvironment(empty) }).toEqual(DEFAULTS);
    expect(faultsOf({ NODE_ENV: 'production', DATABASE_URL: '' })).toHaveLength(1);
  });

  it('reads every variable, and no other', () => {
    const environment = readEnvironment({
      NODE_ENV: 'production',
      DEPLOYMENT_ENVIRONMENT: 'production',
      HOST: '::',
      PORT: '0',
      METRICS_PORT: '9464',
      DATABASE_URL: 'postgresql://u:p@db.example:5433/animals?sslmode=verify-full',
      DATABASE_READ_URL: 'postgres://u:p@a.example:1,b.example/animals?sslmode=verify-full',
      DATABASE_POOL_SIZE: '100',
      DATABASE_POOLER: 'transaction',
      DRAIN_SECONDS: '60',
      MIGRATE_ON_START: 'true',
      PUBLIC_BASE_URL: 'https://animals.example/v1',
      STAGING_BASE_URL: 'https://staging.animals.example/v1',
      RATE_LIMIT_PER_MINUTE: '600',
      CORS_ORIGINS: 'https://app.example, http://localhost:8080,http://[::1]:3000',
      TRUST_PROXY: '10.0.0.0/8, ::1',
      DOCS: 'off',
      LOG_LEVEL: 'silent',
      COMMIT: '0123abc',
      HOME: '/root',
    });
    expect({ ...environment }).toEqual({
      NODE_ENV: 'production',
      DEPLOYMENT_ENVIRONMENT: 'production',
      HOST: '::',
      PORT: 0,
      METRICS_PORT: 9464,
      DATABASE_URL: 'postgresql://u:p@db.example:5433/animals?sslmode=verify-full',
      DATABASE_READ_URL: 'postgres://u:p@a.example:1,b.example/animals?sslmode=verify-full',
      DATABASE_POOL_SIZE: 100,
      DATABASE_POOLER: 'transaction',
      DRAIN_SECONDS: 60,
      MIGRATE_ON_START: true,
      PUBLIC_BASE_URL: 'https://animals.example/v1',
      STAGING_BASE_URL: 'https://staging.animals.example/v1',
      RATE_LIMIT_PER_MINUTE: 600,
      CORS_ORIGINS: ['https://app.example', 'http://localhost:8080', 'http://[::1]:3000'],
      TRUST_PROXY: '10.0.0.0/8, ::1',
      DOCS: 'off',
      LOG_LEVEL: 'silent',
      COMMIT: '0123abc',
    });
  });

  it.each([
    ['NODE_ENV', 'Production'],
    ['NODE_ENV', 'staging'],
    ['PORT', '-1'],
    ['PORT', '65536'],
    ['PORT', '0x50'],
    ['PORT', ' '],
    ['METRICS_PORT', 'on'],
    ['METRICS_PORT', '65536'],
    ['COMMIT', 'main'],
    ['DATABASE_URL', 'mysql://u:p@db.example/animals'],
    ['DATABASE_URL', 'db.example'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?sslmode=disabled'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?sslmode=allow'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?sslmod=require'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?ssl=false'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?application_name=x&sslMode=require'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?sslnegotiation=drect'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?sslmode=verify-full&sslmode=disable'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?ssl=true&sslmode=disable'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?sslmode=verif%79-ca'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?uselibpqcompat=true&sslmode=require'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?target_session_attrs=any'],
    ['DATABASE_URL', 'postgres://u@a.example,b.example/animals'],
    ['DATABASE_URL', 'postgres://u:p,@a.example:1,b.example:2/animals?sslmode=disable'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?channel_binding=require'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?connect_timeout=3'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?statement_timeout=9000'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?hasOwnProperty=host'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?application_name=a&application_name=b'],
    ['DATABASE_URL', 'postgres://u@db.example/animals?port=x'],
    ['DATABASE_READ_URL', 'db.example'],
    ['DATABASE_READ_URL', 'postgres://u@db.example/animals?connect_timeout=3'],
    ['DATABASE_READ_URL', 'postgres://u@db.example/animals?target_session_attrs=read-write'],
    ['DATABASE_READ_URL', 'postgres://u@a.example,b.example:port/animals'],
    ['DATABASE_POOL_SIZE', '1'],
    ['DATABASE_POOL_SIZE', '101'],
    ['DATABASE_POOL_SIZE', 'Infinity'],
    ['DATABASE_POOLER', 'session'],
    ['DRAIN_SECONDS', '61'],
    ['DRAIN_SECONDS', '0.5'],
    ['MIGRATE_ON_START', 'yes'],
    ['MIGRATE_ON_START', 'toString'],
    ['PUBLIC_BASE_URL', 'animals.example/v1'],
    ['PUBLIC_BASE_URL', 'https://animals.example'],
    ['PUBLIC_BASE_URL', 'https://animals.example/v1/'],
    ['PUBLIC_BASE_URL', 'https://animals.example/v1?x=/v1'],
    ['PUBLIC_BASE_URL', 'https://\u0436\u0438\u0432\u043e\u0442.example/v1'],
    ['PUBLIC_BASE_URL', 'https://a"b>c/v1'],
    ['PUBLIC_BASE_URL', 'https://user:password@animals.example/v1'],
    ['STAGING_BASE_URL', 'https://staging.animals.example'],
    ['RATE_LIMIT_PER_MINUTE', '0'],
    ['RATE_LIMIT_PER_MINUTE', '1000001'],
    ['RATE_LIMIT_PER_MINUTE', 'unlimited'],
    ['CORS_ORIGINS', 'app.example'],
    ['CORS_ORIGINS', 'https://app.example/'],
    ['CORS_ORIGINS', 'https://app.example:443'],
    ['CORS_ORIGINS', 'https://*.example'],
    ['CORS_ORIGINS', 'https://app.example,*'],
    ['CORS_ORIGINS', 'https://app.example,'],
    ['CORS_ORIGINS', 'null'],
    ['TRUST_PROXY', 'true'],
    ['TRUST_PROXY', '100'],
    ['TRUST_PROXY', '1,2'],
    ['TRUST_PROXY', '10.0.0.0/0'],
    ['TRUST_PROXY', '10.0.0.0/33'],
    ['TRUST_PROXY', '::1/8/8'],
    ['TRUST_PROXY', 'proxy.example'],
    ['DEPLOYMENT_ENVIRONMENT', 'Production'],
    ['DOCS', 'true'],
    ['LOG_LEVEL', 'loud'],
  ])('refuses %s=%s by one line that begins with the name', (name, value) => {
    expect(faultsOf({ [name]: value })).toEqual([expect.stringMatching(`^${name} must be `)]);
  });

  it.each([
    ['CORS_ORIGINS', '*', ['*']],
    ['TRUST_PROXY', '1', 1],
    ['TRUST_PROXY', '99', 99],
    ['TRUST_PROXY', '127.0.0.1', '127.0.0.1'],
    ['TRUST_PROXY', 'fd00::/8,2001:db8::1/128', 'fd00::/8,2001:db8::1/128'],
  ])('reads %s=%s', (name, value, read) => {
    expect(readEnvironment({ [name]: value })).toHaveProperty(name, read);
  });

  describe('reads DATABASE_URL from the file of DATABASE_URL_FILE', () => {
    const folder = mkdtempSync(join(tmpdir(), 'animal-store-secret-'));
    const file = join(folder, 'url');
    const url = 'postgres://u:p@db.example/animals';
    beforeEach(() => writeFileSync(file, `${url}\n`));
    afterAll(() => rmSync(folder, { recursive: true }));

    it('without its line end', () => {
      const variables = { NODE_ENV: 'production', DATABASE_URL: '', DATABASE_URL_FILE: file };
      expect(readEnvironment(variables)).toMatchObject({
        DATABASE_URL: url,
        DATABASE_URL_FILE: file,
      });
    });

    it('and judges it as the variable', () => {
      writeFileSync(file, 'sekrit');
      expect(faultsOf({ DATABASE_URL_FILE: file })).toEqual([
        expect.stringMatching(/^DATABASE_URL must be .*(?<!sekrit.*)$/),
      ]);
      writeFileSync(file, '\n');
      expect(faultsOf({ DATABASE_URL_FILE: file })).toEqual([
        'DATABASE_URL_FILE must name a file that is not empty',
      ]);
    });

    it('as that of the standbys', () => {
      expect(readEnvironment({ DATABASE_URL: url, DATABASE_READ_URL_FILE: file })).toMatchObject({
        DATABASE_READ_URL: url,
      });
    });

    it('unless both are set', () => {
      expect(faultsOf({ DATABASE_URL: url, DATABASE_URL_FILE: file })).toEqual([
        'DATABASE_URL_FILE must not be set beside DATABASE_URL',
      ]);
    });

    it('or says that it cannot, quoting nothing', () => {
      expect(faultsOf({ PORT: 'x', DATABASE_URL_FILE: `${url}/none` })).toEqual([
        expect.stringMatching('^PORT '),
        'DATABASE_URL_FILE must name a file that this process can read: ENOENT',
      ]);
    });
  });

  it.each([
    ['postgres://u:sekrit@db.example:5433/animals', 'postgres://u:***@db.example:5433/animals'],
    ['postgres://u@db.example/animals?ssl=0', 'postgres://u@db.example/animals?ssl=0'],
    ['postgres://db.example/animals?user=u&password=sekrit', 'password=***'],
    ['postgres://db.example/animals?p%61ssword=sekrit&password=sekrit', 'password=***'],
    [
      'postgres://one:sekrit@one:1,two:2/animals?target_session_attrs=read-write',
      'postgres://one:***@one:1,two:2/animals?target_session_attrs=read-write',
    ],
    ['postgres://one:1,two:2/animals?password=sekrit', 'one:1,two:2/animals?password=***'],
    ['postgres://u:sekrit@[one,two/animals', 'postgres://***'],
  ])('shows %s without its password', (url, shown) => {
    expect(withoutPassword(url)).toContain(shown);
    expect(withoutPassword(url)).not.toContain('sekrit');
  });

  it('names all faults together and shows no value', () => {
    const faults = faultsOf({ PORT: 'sekrit', DATABASE_URL: 'sekrit', LOG_LEVEL: 'sekrit' });
    expect(faults.map((fault) => fault.split(' ')[0])).toEqual([
      'PORT',
      'DATABASE_URL',
      'LOG_LEVEL',
    ]);
    expect(faults.join()).not.toContain('sekrit');
  });

  it.each([
    'ssl=true',
    'ssl=0',
    'sslmode=no-verify&application_name=x',
    'sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem',
    'sslmode=require&sslnegotiation=direct',
    'host=/var/run/postgresql&port=5433&user=u&password=p',
    'target_session_attrs=read-write',
    'options=-c%20search_path%3Danimals&application_name=x',
  ])('takes parameters that the driver acts on: %s', (parameters) => {
    expect(faultsOf({ DATABASE_URL: `postgres://u@db.example/animals?${parameters}` })).toEqual([]);
  });

  it.each([
    ['postgres://u@/db?host=/run/pg', 'postgres:///db?host=/run/pg&user=u'],
    [
      'postgres://u:p%2F+@:5433/db?host=/run/pg',
      'postgres:///db?host=/run/pg&user=u&password=p%2F%2B&port=5433',
    ],
    ['postgres://u@?host=/run/pg', 'postgres:///?host=/run/pg&user=u'],
    ['postgres://%2Frun%2Fpg/db', 'postgres://%2Frun%2Fpg/db'],
  ])('takes the URL of a Unix socket, %s, in a form that every part can parse', (url, parsable) => {
    const read = readEnvironment({ DATABASE_URL: url, DATABASE_READ_URL: url });
    expect([read.DATABASE_URL, read.DATABASE_READ_URL]).toEqual([parsable, parsable]);
    expect(withoutPassword(read.DATABASE_URL!)).not.toContain('p%2F');
  });

  it('takes several hosts, one of them for writes', () => {
    const DATABASE_URL =
      'postgres://u:p@a.example,b.example:5433/animals?target_session_attrs=read-write';
    expect(faultsOf({ DATABASE_URL })).toEqual([]);
  });

  it('takes a comma in the password', () => {
    expect(faultsOf({ DATABASE_URL: 'postgres://u:p,q@db.example/animals' })).toEqual([]);
  });

  it.each(['prefer', 'require', 'verify-ca'])('has sslmode %s check all, as documented', (mode) => {
    const url = (one: string) => `postgres://u@db.example/animals?sslcert=/c.pem&sslmode=${one}`;
    const { DATABASE_URL } = readEnvironment({ DATABASE_URL: url(mode) });
    expect(DATABASE_URL).toBe(url('verify-full'));
  });

  it.each([
    [{}, 'development'],
    [{ NODE_ENV: 'production' }, 'production'],
    [{ NODE_ENV: 'production', DEPLOYMENT_ENVIRONMENT: 'staging' }, 'staging'],
    [{ NODE_ENV: 'production', DEPLOYMENT_ENVIRONMENT: 'development' }, 'development'],
    [{ DEPLOYMENT_ENVIRONMENT: 'production' }, 'production'],
  ])('reads from %j that this is %s', (variables, deployment) => {
    const DATABASE_URL = 'postgres://db.example/animals';
    expect(readEnvironment({ DATABASE_URL, ...variables })).toHaveProperty(
      'deployment',
      deployment,
    );
  });

  it('refuses to run staging under the name of another environment', () => {
    const addresses = {
      PUBLIC_BASE_URL: 'https://Staging.example:443/v1',
      STAGING_BASE_URL: 'https://staging.example/v1',
    };
    expect(faultsOf(addresses)).toEqual([
      'DEPLOYMENT_ENVIRONMENT must be staging when PUBLIC_BASE_URL and STAGING_BASE_URL are the same address',
    ]);
    expect(faultsOf({ ...addresses, DEPLOYMENT_ENVIRONMENT: 'staging' })).toEqual([]);
  });

  it('refuses a pooler and standbys of the embedded PostgreSQL', () => {
    expect(faultsOf({ DATABASE_POOLER: 'transaction' })).toEqual([
      expect.stringMatching('^DATABASE_POOLER requires DATABASE_URL'),
    ]);
    expect(faultsOf({ DATABASE_READ_URL: 'postgres://db.example/animals' })).toEqual([
      expect.stringMatching('^DATABASE_READ_URL requires DATABASE_URL'),
    ]);
  });

  it('wants DATABASE_URL in production, and only there', () => {
    expect(faultsOf({ NODE_ENV: 'production', PORT: 'x' })).toEqual([
      expect.stringMatching('^PORT '),
      expect.stringMatching('^DATABASE_URL '),
    ]);
    expect(faultsOf({ NODE_ENV: 'production', DATABASE_URL: 'x' })).toHaveLength(1);
    expect(faultsOf({ NODE_ENV: 'test' })).toEqual([]);
  });
});
