import { execFileSync } from 'node:child_process';
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { postgresAccount } from '../../src/embedded-postgres/binaries.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { Postgres } from '../support/postgres.js';
import { Project } from '../support/project.js';
import { dropDatabase } from '../support/service.js';

describe('animal-store check', () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createMigratedDatabase();
  });

  async function check(variables: Record<string, string>) {
    const { code, stdout, stderr } = await project.run('check', ['--json'], variables);
    expect([stderr, stdout.includes('sekrit')]).toEqual(['', false]);
    const report = JSON.parse(stdout);
    expect(report.isOk).toBe(code === 0);
    const checks: { name: string; isOk: boolean; message: string }[] = report.checks;
    return {
      code,
      stdout,
      configuration: report.configuration,
      ok: checks.filter(({ isOk }) => isOk).map(({ name }) => name),
      failed: checks.filter(({ isOk }) => !isOk).map(({ name, message }) => `${name}: ${message}`),
    };
  }

  it('names the migrations that are pending', async () => {
    const { code, ok, failed } = await check({ DATABASE_URL: await project.createDatabase() });
    const before = ['configuration', 'database', 'TLS', 'server version', 'encoding', 'writes'];
    expect([code, ok]).toEqual([1, [...before, 'migrations', 'sessions']]);
    expect(failed).toEqual([
      `migrations: The database has pending migrations: ${MIGRATION_NAMES.slice(0, 3).join(', ')}.`,
    ]);
  });

  it('says that all is well, in lines that a person can read, and in JSON', async () => {
    const later = `insert into migrations (timestamp, name) values (9999999999999, 'Later9999999999999')`;
    await query(DATABASE_URL, later);
    const { pathname, host, username, password } = new URL(DATABASE_URL);
    const { code, stdout } = await project.run('check', [], { DATABASE_URL, LOG_LEVEL: 'warn' });
    const DATABASE = `Database ${pathname.slice(1)} at ${host}, role ${username}, schema public`;
    expect(code).toBe(0);
    expect(stdout).toMatch(/^NODE_ENV=development$/m);
    expect(stdout).toContain(
      `ok    database: ${DATABASE}\nok    TLS: off: the connection is not encrypted\nok    server version: PostgreSQL `,
    );
    expect(stdout).toContain(
      'ok    migrations: all applied; of later versions: Later9999999999999',
    );
    expect(stdout).not.toMatch(/FAIL|warn {2}/);
    const json = await check({ DATABASE_URL, LOG_LEVEL: 'warn' });
    expect([json.code, json.failed]).toEqual([0, []]);
    const masked = DATABASE_URL.replace(password, '***');
    expect(json.configuration).toMatchObject({ LOG_LEVEL: 'warn', DATABASE_URL: masked });
    expect(stdout + json.stdout).not.toContain(password);
    await query(DATABASE_URL, `delete from migrations where name like 'Later%'`);
  });

  it.each([
    [
      'each variable at fault',
      { PORT: 'sekrit', DATABASE_URL: 'sekrit' },
      [],
      /^configuration: PORT must be .+\nDATABASE_URL must be /,
    ],
    [
      'a database out of reach',
      { DATABASE_URL: 'postgres://u:sekrit@127.0.0.1:1/x' },
      ['configuration'],
      /^database: .*ECONNREFUSED/,
    ],
  ])('names %s, and no secret', async (_what, variables, passed, message) => {
    const { code, ok, failed } = await check(variables);
    expect([code, ok, failed]).toEqual([1, passed, [expect.stringMatching(message)]]);
  });

  it('says which standbys are not read from and why, without their password', async () => {
    const DATABASE_READ_URL = 'postgres://u:sekrit@127.0.0.1:1/x';
    const { code, stdout, configuration } = await check({ DATABASE_URL, DATABASE_READ_URL });
    expect([code, configuration.DATABASE_READ_URL]).toEqual([0, 'postgres://u:***@127.0.0.1:1/x']);
    expect(stdout).toMatch(/"127\.0\.0\.1:1: .*ECONNREFUSED/);
    const other = { DATABASE_URL, DATABASE_READ_URL: process.env['TEST_DATABASE_URL']! };
    expect((await check(other)).failed).toEqual([
      expect.stringMatching(/^standbys: .* is not a standby of /),
    ]);
  });

  it('says that a database is read-only, or not in UTF-8', async () => {
    const url = `${DATABASE_URL}_ascii`;
    const name = new URL(url).pathname.slice(1);
    await query(
      process.env['TEST_DATABASE_URL']!,
      `create database ${name} encoding 'SQL_ASCII' locale 'C' template template0`,
      `alter database ${name} set default_transaction_read_only = on`,
    );
    const { code, failed } = await check({ DATABASE_URL: url });
    expect(code).toBe(1);
    expect(failed.slice(0, 2)).toEqual([
      'encoding: SQL_ASCII must be UTF8',
      'writes: the database is read-only',
    ]);
    await dropDatabase(url);
  });

  it('prints the statements that repair sequences which logical replication did not advance', async () => {
    const url = await project.createMigratedDatabase();
    await query(
      url,
      `insert into pets (name, category_id) select 'Rex', 1 from generate_series(1, 5)`,
      `insert into orders (pet_id) values (5)`,
      ...['pets', 'orders', 'migrations'].map((table) => `alter sequence ${table}_id_seq restart`),
    );
    const { code, stdout } = await project.run('check', [], { DATABASE_URL: url });
    expect([code, stdout.match(/^.+ sequences: \w+ is \w+/gm)]).toEqual([
      1,
      [
        'FAIL  sequences: pets_id_seq is behind',
        'ok    sequences: api_keys_id_seq is past',
        'warn  sequences: orders_id_seq is behind',
        'warn  sequences: migrations_id_seq is behind',
      ],
    ]);
    await query(url, ...stdout.match(/select setval.+;$/gm)!);
    expect((await check({ DATABASE_URL: url })).failed).toEqual([]);
    const [{ id }] = await query(
      url,
      `insert into pets (name, category_id) values ('Max', 1) returning id`,
    );
    expect(id).toBe('6');
  });

  it('says whether the connection is encrypted, and the certificate verified', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-tls-'));
    const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
    const make = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout ${key} -out ${certificate}`;
    execFileSync('openssl', make.split(' '), { stdio: 'ignore' });
    const ids = await postgresAccount(folder);
    await chmod(folder, 0o755);
    await chmod(key, 0o600);
    await chown(key, ids.uid ?? process.getuid!(), ids.gid ?? process.getgid!());
    const server = await Postgres.start([
      'ssl=on',
      `ssl_key_file=${key}`,
      `ssl_cert_file=${certificate}`,
    ]);
    await runMigrations(server.url);
    const url = server.url.replace('127.0.0.1', 'localhost');
    for (const [parameters, tls] of [
      ['sslmode=disable', 'off: the connection is not encrypted'],
      ['sslmode=no-verify', "on, and the server's certificate is not verified"],
      [`sslrootcert=${certificate}`, "on, and the server's certificate is verified"],
      [
        `sslmode=verify-full&sslrootcert=${certificate}`,
        "on, and the server's certificate is verified",
      ],
    ]) {
      const outcome = await project.run('check', [], { DATABASE_URL: `${url}?${parameters}` });
      expect([parameters, outcome.code]).toEqual([parameters, 0]);
      expect(outcome.stdout).toContain(`ok    TLS: ${tls}\n`);
    }
    await server.stop();
    await rm(folder, { recursive: true });
  });
});
