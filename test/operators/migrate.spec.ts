import { Client } from 'pg';
import { MIGRATION_NAMES as names } from '../../migrations/index.js';
import { readEnvironment } from '../../src/config/environment.js';
import { MIGRATION_LOCK } from '../../src/schema/migration-statements.js';
import { requireMigrated } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { Project } from '../support/project.js';
import { CREATE_ORDERS, revertToOrders, UP_TO_ORDERS } from '../support/revert-to-orders.js';

describe('the migrations', () => {
  const shown = (applied: number) =>
    names.map((name, i) => `[${i < applied ? 'X' : ' '}] ${name}`).join('\n');
  const project = Project.ofTests();

  async function migrate(command: string, url: string) {
    const outcome = await runHere(`migrate ${command}`, { DATABASE_URL: url });
    const { pathname, host, username } = new URL(url);
    const where = `Database ${pathname.slice(1)} at ${host}, role ${username}, schema public.\n`;
    expect(outcome.stderr.slice(0, where.length)).toBe(where);
    const stdout = outcome.stdout.trimEnd();
    return { code: outcome.code, stdout, stderr: outcome.stderr.slice(where.length) };
  }

  it('are shown, run and reverted by the commands, which say where and what, and then what they did', async () => {
    const url = await project.createDatabase();
    const all = names.join(', ');
    for (const [command, stdout, stderr] of [
      ['revert', 'Nothing is applied.', ''],
      ['show', shown(0), ''],
      ['run', `Applied ${all}.`, `Pending: ${all}.\n`],
      ['run', 'Nothing is pending.', 'Pending: none.\n'],
      ['show', shown(names.length), ''],
    ] as const) {
      expect(await migrate(command, url)).toEqual({ code: 0, stdout, stderr });
    }
    await revertToOrders(url);
    expect(await migrate('revert --yes', url)).toEqual({
      code: 0,
      stdout: `Reverted ${CREATE_ORDERS}.`,
      stderr:
        `Reverts ${CREATE_ORDERS}. This permanently deletes:\n` +
        '  the table orders (rows: 0) and the rights granted on it\n' +
        'A running service still serves pets.\n',
    });
    expect((await migrate('show', url)).stdout).toBe(shown(UP_TO_ORDERS.length - 1));
  });

  it('are not reverted without --yes, but what would be lost is listed', async () => {
    const url = await project.createMigratedDatabase();
    await revertToOrders(url);
    await query(
      url,
      `insert into pets (name, category_id) values ('Rex', 1)`,
      'insert into orders (pet_id) values (1), (1)',
    );
    const { code, stdout, stderr } = await migrate('revert', url);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/\n {2}the table orders \(rows: 2\)[^]*\nNothing was reverted\..*--yes/);
    expect((await migrate('show', url)).stdout).toBe(shown(UP_TO_ORDERS.length));
  });

  it('are shown, those of later versions too', async () => {
    const url = await project.createMigratedDatabase();
    await query(
      url,
      `insert into migrations (timestamp, name) values (9999999999999, 'Later9999999999999')`,
      `delete from migrations where name = '${names.at(-1)}'`,
    );
    const lines = names.slice(0, -1).map((name) => `[X] ${name}\n`);
    const later = '[X] Later9999999999999\tnot of this version\n';
    const stdout = `${lines.join('')}${later}[ ] ${names.at(-1)}`;
    expect(await migrate('show', url)).toMatchObject({ code: 0, stdout });
    expect((await migrate('show --check', url)).code).toBe(1);
    await query(url, `insert into migrations (timestamp, name) values (1, '${names.at(-1)}')`);
    expect((await migrate('show --check', url)).code).toBe(0);
  });

  it('are not made a second time in another schema, by whatever command or search_path', async () => {
    const url = await project.createMigratedDatabase();
    const role = `${new URL(url).pathname.slice(1)}_service`;
    await query(
      url,
      `create schema other; grant all on schema other to public; create role ${role} login password 'sekrit';
       grant select on pets to ${role}; alter role ${role} set search_path = other`,
    );
    const pathOf = (path: string) => `${url}?options=-c%20search_path%3D${path}`;
    const asRole = Object.assign(new URL(url), { username: role, password: 'sekrit' }).href;
    const notFirst =
      /The tables are in the schema public, which is not first in the search_path of the role/;
    for (const DATABASE_URL of [pathOf('other'), pathOf('other,public'), asRole]) {
      for (const command of ['run', 'revert', 'sql']) {
        const { code, stdout, stderr } = await runHere(`migrate ${command}`, { DATABASE_URL });
        expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(notFirst)]);
        expect(stderr).toMatch(/^Database .+, schema other\.\n/);
      }
    }
    const start = (DATABASE_URL: string) =>
      requireMigrated(DATABASE_URL, readEnvironment({ DATABASE_URL, MIGRATE_ON_START: 'true' }));
    for (const DATABASE_URL of [pathOf('other'), asRole]) {
      await expect(start(DATABASE_URL)).rejects.toThrow(notFirst);
      const { code, stdout } = await runHere('check', { DATABASE_URL });
      expect([code, stdout]).toEqual([1, expect.not.stringContaining('pending')]);
      expect(stdout).toMatch(/, schema other\n[^]*\nFAIL {2}schema: The tables are in /);
    }
    await query(url, `revoke usage on schema public from public`);
    await expect(start(asRole)).rejects.toThrow(`grant usage on schema public to ${role};`);
    const tables = await query(url, `select schemaname from pg_tables where tablename = 'pets'`);
    expect(tables).toEqual([{ schemaname: 'public' }]);
    await query(url, `drop owned by ${role}`, `drop role ${role}`);
  });

  it('are not applied by a process that waits for those of another when a signal stops it, and that logs it', async () => {
    const url = await project.createDatabase();
    const holder = new Client({ connectionString: url });
    await holder.connect();
    await holder.query(`select pg_advisory_lock(${MIGRATION_LOCK})`);
    for (const [reason, code] of [
      ['SIGTERM', 0],
      ['SIGHUP', 129],
    ] as const) {
      const waiting = project.spawn('serve', [], { DATABASE_URL: url, MIGRATE_ON_START: 'true' });
      await waiting.says(/^Another process migrates/m, 'stderr');
      const { stdout, ...outcome } = await waiting.end(reason);
      const stderr = 'Another process migrates this database; this one waits for it.\n';
      expect(outcome).toEqual({ code, stderr });
      expect(JSON.parse(stdout)).toMatchObject({ level: 'info', msg: 'stopped', reason });
    }
    await holder.end();
    expect((await migrate('show', url)).stdout).toBe(shown(0));
  });

  it('stay applied if a later one fails', async () => {
    const url = await project.createDatabase();
    await query(url, 'create table orders ()');
    expect(await migrate('run', url)).toMatchObject({ code: 1, stdout: '' });
    expect((await migrate('show', url)).stdout).toBe(shown(UP_TO_ORDERS.length - 1));
  });
});
