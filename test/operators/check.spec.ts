import { MIGRATION_NAMES } from '../../migrations/index.js';
import { administer } from '../../src/database/database.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { dropDatabase } from '../support/service.js';
import { Project } from '../support/project.js';

describe('animal-store check', () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createDatabase();
  });

  async function check(variables: Record<string, string>) {
    const { code, stdout, stderr } = await project.run('check', ['--json'], variables);
    expect(stderr).toBe('');
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
    const { code, ok, failed } = await check({ DATABASE_URL });
    expect(code).toBe(1);
    expect(ok).toEqual([
      'configuration',
      'database',
      'server version',
      'encoding',
      'writes',
      'migrations',
      'sessions',
    ]);
    expect(failed).toEqual([
      `migrations: The database has pending migrations: ${MIGRATION_NAMES.slice(0, 3).join(', ')}.`,
    ]);
  });

  it('says that all is well, and which migrations are of later versions', async () => {
    await runMigrations(DATABASE_URL);
    await administer(DATABASE_URL, (dataSource) =>
      dataSource.query(
        `insert into migrations (timestamp, name) values (9999999999999, 'Later9999999999999')`,
      ),
    );
    const { code, failed, stdout, configuration } = await check({
      DATABASE_URL,
      LOG_LEVEL: 'warn',
    });
    expect([code, failed]).toEqual([0, []]);
    expect(stdout).toContain('"all applied; of later versions: Later9999999999999"');
    const { password } = new URL(DATABASE_URL);
    expect(configuration).toMatchObject({
      LOG_LEVEL: 'warn',
      DATABASE_URL: DATABASE_URL.replace(password, '***'),
    });
    expect(stdout).not.toContain(password);
  });

  it('prints lines that a person can read', async () => {
    const { code, stdout } = await project.run('check', [], { DATABASE_URL });
    const { pathname, host, username } = new URL(DATABASE_URL);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^NODE_ENV=development$/m);
    expect(stdout).toContain(
      `ok    database: Database ${pathname.slice(1)} at ${host}, role ${username}, schema public\nok    server version: PostgreSQL `,
    );
    expect(stdout).not.toMatch(/FAIL/);
  });

  it('names each variable at fault, and no value', async () => {
    const { code, ok, failed, stdout } = await check({ PORT: 'sekrit', DATABASE_URL: 'sekrit' });
    expect([code, ok]).toEqual([1, []]);
    expect(failed).toEqual([
      expect.stringMatching(/^configuration: PORT must be .+\nDATABASE_URL must be /),
    ]);
    expect(stdout).not.toContain('sekrit');
  });

  it('says that the database is out of reach, without its password', async () => {
    const { code, ok, failed, stdout } = await check({
      DATABASE_URL: 'postgres://u:sekrit@127.0.0.1:1/x',
    });
    expect([code, ok]).toEqual([1, ['configuration']]);
    expect(failed).toEqual([expect.stringMatching(/^database: .*ECONNREFUSED/)]);
    expect(stdout).not.toContain('sekrit');
  });

  it('says which standbys are not read from and why, without their password', async () => {
    const { code, stdout, configuration } = await check({
      DATABASE_URL,
      DATABASE_READ_URL: 'postgres://u:sekrit@127.0.0.1:1/x',
    });
    expect([code, configuration.DATABASE_READ_URL]).toEqual([0, 'postgres://u:***@127.0.0.1:1/x']);
    expect(stdout).toMatch(/"127\.0\.0\.1:1: .*ECONNREFUSED/);
    expect(stdout).not.toContain('sekrit');
    const other = await check({
      DATABASE_URL,
      DATABASE_READ_URL: process.env['TEST_DATABASE_URL']!,
    });
    expect(other.failed).toEqual([expect.stringMatching(/^standbys: .* is not a standby of /)]);
  });

  it('says that a database is read-only, or not in UTF-8', async () => {
    const url = new URL(DATABASE_URL);
    url.pathname += '_ascii';
    const name = url.pathname.slice(1);
    await administer(process.env['TEST_DATABASE_URL']!, async (dataSource) => {
      await dataSource.query(
        `create database ${name} encoding 'SQL_ASCII' locale 'C' template template0`,
      );
      await dataSource.query(`alter database ${name} set default_transaction_read_only = on`);
    });
    const { code, failed } = await check({ DATABASE_URL: url.href });
    expect(code).toBe(1);
    expect(failed.slice(0, 2)).toEqual([
      'encoding: SQL_ASCII must be UTF8',
      'writes: the database is read-only',
    ]);
    await dropDatabase(url.href);
  });
});
