import { Client } from 'pg';
import { MIGRATION_NAMES as names, migrations } from '../../migrations/index.js';
import { VERSION } from '../../src/config/project-root.js';
import { MIGRATION_LOCK } from '../../src/schema/locks.js';
import { query } from '../support/ask.js';
import { Project } from '../support/project.js';
import { CREATE_ORDERS, revertToOrders, UP_TO_ORDERS } from '../support/revert-to-orders.js';

const WAITS = 'Another process migrates this database; this one waits for it.\n';

describe('the migrations', () => {
  const shown = (applied: number) =>
    names.map((name, i) => `[${i < applied ? 'X' : ' '}] ${name}`).join('\n');
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createDatabase();
  });

  /** What every command says first. */
  const where = (url: string) => {
    const { pathname, host, username } = new URL(url);
    return `Database ${pathname.slice(1)} at ${host}, role ${username}, schema public.\n`;
  };

  async function migrate(args: string, url = DATABASE_URL, variables = {}) {
    const outcome = await project.run('migrate', args.split(' '), {
      DATABASE_URL: url,
      ...variables,
    });
    expect(outcome.stderr.slice(0, where(url).length)).toBe(where(url));
    // In a list, what follows the first tab is about when, and by whom.
    const stdout = outcome.stdout.trimEnd().replaceAll(/\t.+$/gm, '');
    return { code: outcome.code, stdout, stderr: outcome.stderr.slice(where(url).length) };
  }

  it('are shown, run and reverted by the commands, which say where and what, and then what they did', async () => {
    const listed = { code: 0, stderr: 'Lists its migrations and changes nothing.\n' };
    const none = { code: 0, stdout: 'Nothing is applied.', stderr: 'Reverts nothing.\n' };
    expect(await migrate('revert')).toEqual(none);
    expect(await migrate('show')).toEqual({ ...listed, stdout: shown(0) });
    const all = names.join(', ');
    const run = { code: 0, stdout: `Applied ${all}.`, stderr: `Applies ${all}.\n` };
    expect(await migrate('run')).toEqual(run);
    const again = { code: 0, stdout: 'Nothing is pending.', stderr: 'Applies nothing.\n' };
    expect(await migrate('run')).toEqual(again);
    expect(await migrate('show')).toEqual({ ...listed, stdout: shown(names.length) });
    await revertToOrders(DATABASE_URL);
    expect(await migrate('revert --yes')).toEqual({
      code: 0,
      stdout: `Reverted ${CREATE_ORDERS}.`,
      stderr:
        `Reverts ${CREATE_ORDERS}. This permanently deletes:\n` +
        '  the table orders (rows: 0) and the rights granted on it\n' +
        'Running service, which still serves pets: none.\n',
    });
    expect((await migrate('show')).stdout).toBe(shown(UP_TO_ORDERS.length - 1));
  });

  it('are reverted after the running sessions of the service are named', async () => {
    const url = await project.createMigratedDatabase();
    await project.serve({ DATABASE_URL: url });
    const { isOptional } = new (migrations.at(-1)!)();
    const effect = isOptional ? 'which still serves pets' : 'whose readiness is then 503';
    expect((await migrate('revert --yes', url)).stderr).toMatch(
      new RegExp(
        `\\nRunning service, ${effect}: \\d+ sessions of the role \\w+ from 127\\.0\\.0\\.1\\.\\n$`,
      ),
    );
  });

  it('are not reverted before someone confirms what is lost', async () => {
    const url = await project.createMigratedDatabase();
    await revertToOrders(url);
    await query(url, `insert into pets (name, category_id) values ('Rex', 1)`);
    await query(url, `insert into orders (pet_id) values (1), (1)`);
    expect(await migrate('revert', url, { NODE_ENV: 'production' })).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(
        /\n {2}the table orders \(rows: 2\)[^]*\nNothing was reverted\..*--yes/,
      ),
    });
    for (const [answer, code] of [
      ['no', 2],
      ['\u0004', 2],
      ['yes', 0],
    ] as const) {
      expect((await migrate('show', url)).stdout).toBe(shown(UP_TO_ORDERS.length));
      const asking = project.onTerminal(['migrate', 'revert'], { DATABASE_URL: url });
      await asking.says(/rows: 2.*Type yes to revert it: /s);
      asking.type(`${answer}\n`);
      expect((await asking.outcome).code).toBe(code);
    }
    expect((await migrate('show', url)).stdout).toBe(shown(UP_TO_ORDERS.length - 1));
  });

  it('are shown with when and by which version each was applied, those of later versions too', async () => {
    const url = await project.createMigratedDatabase();
    const show = (...args: string[]) =>
      project.run('migrate', ['show', ...args], { DATABASE_URL: url });
    const appliedAt = '2026-11-23T01:02:03.000Z';
    await query(
      url,
      `insert into migrations (timestamp, name, version) values (9999999999999, 'Later9999999999999', '9.0.0')`,
      `update migrations set applied_at = '${appliedAt}'`,
      `update migrations set applied_at = null, version = null where name = '${names[0]}'`,
      `delete from migrations where name = '${names[2]}'`,
    );
    const { code, stdout } = await show();
    const ofThis = (name?: string) => `[X] ${name}\tapplied ${appliedAt}\tby version ${VERSION}`;
    expect([code, stdout.trimEnd().split('\n')]).toEqual([
      0,
      [
        `[X] ${names[0]}\tapplied at an unknown time`,
        ofThis(names[1]),
        `[ ] ${names[2]}`,
        ...names.slice(3).map(ofThis),
        `[X] Later9999999999999\tapplied ${appliedAt}\tby version 9.0.0\tnot of this version`,
      ],
    ]);
    const json = await show('--json', '--check');
    expect(json.code).toBe(1);
    const list = JSON.parse(json.stdout);
    const later = { appliedAt, version: '9.0.0', isOfThisVersion: false };
    expect(list[0]).toMatchObject({ isApplied: true, appliedAt: null, version: null });
    expect(list[2]).toMatchObject({ name: names[2], isApplied: false, isOfThisVersion: true });
    expect(list.at(-1)).toMatchObject(later);
    await query(url, `insert into migrations (timestamp, name) values (1, '${names[2]}')`);
    expect((await show('--check')).code).toBe(0);
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
        const outcome = await project.run('migrate', [command], { DATABASE_URL });
        expect([outcome.code, outcome.stdout]).toEqual([1, '']);
        expect(outcome.stderr).toMatch(/^Database .+, schema other\.\n/);
        expect(outcome.stderr).toMatch(notFirst);
      }
    }
    for (const DATABASE_URL of [pathOf('other'), asRole]) {
      const variables = { DATABASE_URL, MIGRATE_ON_START: 'true' };
      const { code, stderr } = await project.run('serve', [], variables);
      expect([code, stderr]).toEqual([1, expect.stringMatching(notFirst)]);
      const checked = await project.run('check', [], { DATABASE_URL });
      expect(checked.code).toBe(1);
      expect(checked.stdout).toMatch(/, schema other\n[^]*\nFAIL {2}schema: The tables are in /);
      expect(checked.stdout).not.toContain('pending');
    }
    await query(url, `revoke usage on schema public from public`);
    const { stderr } = await project.run('serve', [], { DATABASE_URL: asRole });
    expect(stderr).toMatch(
      `schema public, on which the role ${role} lacks usage: grant usage on schema public to`,
    );
    const tables = await query(url, `select schemaname from pg_tables where tablename = 'pets'`);
    expect(tables).toEqual([{ schemaname: 'public' }]);
    await query(url, `drop owned by ${role}`, `drop role ${role}`);
  });

  it('stop a process that waits for those of another, and that then applies none', async () => {
    const url = await project.createDatabase();
    const holder = new Client({ connectionString: url });
    await holder.connect();
    await holder.query(`select pg_advisory_lock(${MIGRATION_LOCK})`);
    const waiting = project.spawn('serve', [], { DATABASE_URL: url, MIGRATE_ON_START: 'true' });
    await waiting.says(/^Another process migrates/m, 'stderr');
    expect(await waiting.end('SIGTERM')).toEqual({ code: 0, stdout: '', stderr: WAITS });
    await holder.end();
    expect((await migrate('show', url)).stdout).toBe(shown(0));
  });

  it('are applied once each by four processes that start at once on an empty database', async () => {
    const url = await project.createDatabase();
    const variables = { NODE_ENV: 'production', DATABASE_URL: url, MIGRATE_ON_START: 'true' };
    const services = await Promise.all(Array.from({ length: 4 }, () => project.serve(variables)));
    for (const { base } of services) {
      expect((await fetch(new URL('/health/ready', base))).status).toBe(200);
    }
    const rows = await query(url, 'select name from migrations order by id');
    expect(rows.map(({ name }) => name)).toEqual(names);
    const outcomes = await Promise.all(services.map(({ program }) => program.end('SIGTERM')));
    for (const { code, stdout, stderr } of outcomes) {
      expect([code, stderr.replaceAll(WAITS, '')]).toEqual([0, '']);
      // The key is for whoever tries the service out on its embedded database.
      expect(stdout).not.toContain('API key');
    }
  });
});
