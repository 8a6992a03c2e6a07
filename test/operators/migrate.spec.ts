import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { migrations } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { administer } from '../../src/database/database.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { CREATE_ORDERS, revertToOrders, UP_TO_ORDERS } from '../support/revert-to-orders.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

const WAITS = 'Another process migrates this database; this one waits for it.\n';

describe('the migrations', () => {
  const names = migrations.map(({ name }) => name);
  const shown = (applied: number) =>
    names.map((name, i) => `[${i < applied ? 'X' : ' '}] ${name}`).join('\n');
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createDatabase();
  });

  /** What every command says first. */
  const where = () => {
    const { pathname, host, username } = new URL(DATABASE_URL);
    return `Database ${pathname.slice(1)} at ${host}, role ${username}, schema public.\n`;
  };

  async function migrate(command: string): Promise<string> {
    const args = command === 'revert' ? ['revert', '--yes'] : [command];
    const { code, stdout, stderr } = await project.run('migrate', args, { DATABASE_URL });
    expect([code, stderr.slice(0, where().length)]).toEqual([0, where()]);
    expect(stderr.slice(where().length)).toMatch(
      /^(Applies|Reverts|Lists) .+\n(  the (table|column) .+\n)*(Running service, .+: none\.\n)?$/,
    );
    // What follows the first tab is about when, and by whom.
    return stdout.trimEnd().replaceAll(/\t.+$/gm, '');
  }

  async function revertAll(): Promise<void> {
    while ((await revertMigration(DATABASE_URL)) !== undefined);
  }

  it('are shown, run and reverted by the command', async () => {
    expect(await migrate('show')).toBe(shown(0));
    expect(await migrate('run')).toBe(`Applied ${names.join(', ')}.`);
    expect(await migrate('run')).toBe('Nothing is pending.');
    expect(await migrate('show')).toBe(shown(names.length));
    const last = FULL_LENGTH ? 1 : names.length;
    for (let applied = names.length; applied >= last; applied -= 1) {
      expect(await migrate('revert')).toBe(`Reverted ${names[applied - 1]}.`);
      expect(await migrate('show')).toBe(shown(applied - 1));
    }
    await revertAll();
    expect(await migrate('revert')).toBe('Nothing is applied.');
  });

  it('name what is about to be done, and on which database, without its password', async () => {
    const outcome = await project.run('migrate', ['run'], { DATABASE_URL });
    expect(outcome.stderr).toBe(`${where()}Applies ${names.join(', ')}.\n`);
    await revertToOrders(DATABASE_URL);
    const { stderr } = await project.run('migrate', ['revert', '--yes'], { DATABASE_URL });
    expect(stderr).toBe(
      `${where()}Reverts ${CREATE_ORDERS}. This permanently deletes:\n` +
        '  the table orders (rows: 0) and the rights granted on it\n' +
        'Running service, which still serves pets: none.\n',
    );
  });

  it('are reverted after the running sessions of the service are named', async () => {
    const url = await project.createDatabase();
    await runMigrations(url);
    await project.serve({ DATABASE_URL: url });
    const reverted = await project.run('migrate', ['revert', '--yes'], { DATABASE_URL: url });
    const { isOptional } = new (migrations.at(-1)!)();
    const effect = isOptional ? 'which still serves pets' : 'whose readiness is then 503';
    expect(reverted.stderr).toMatch(
      new RegExp(
        `\\nRunning service, ${effect}: \\d+ sessions of the role \\w+ from 127\\.0\\.0\\.1\\.\\n$`,
      ),
    );
  });

  it('are not reverted before someone confirms what is lost', async () => {
    await migrate('run');
    await revertToOrders(DATABASE_URL);
    const change = (sql: string) => administer(DATABASE_URL, (dataSource) => dataSource.query(sql));
    await change(`insert into pets (name, category_id) values ('Rex', 1)`);
    await change(`insert into orders (pet_id) values (1), (1)`);
    const production = { DATABASE_URL, NODE_ENV: 'production' };
    const outcome = await project.run('migrate', ['revert'], production);
    expect([outcome.code, outcome.stdout]).toEqual([2, '']);
    expect(outcome.stderr).toMatch(
      /\n  the table orders \(rows: 2\)[^]*\nNothing was reverted\..*--yes/,
    );
    expect(await migrate('show')).toBe(shown(UP_TO_ORDERS.length));

    expect(await onTerminal('no')).toBe(2);
    expect(await onTerminal('\u0004')).toBe(2);
    expect(await migrate('show')).toBe(shown(UP_TO_ORDERS.length));
    expect(await onTerminal('yes')).toBe(0);
    expect(await migrate('show')).toBe(shown(UP_TO_ORDERS.length - 1));
    while ((await migrate('revert')) !== 'Nothing is applied.');
  });

  it('are not reverted while their tables are locked, and say by whom', async () => {
    await migrate('run');
    await revertToOrders(DATABASE_URL);
    const holder = new Client({ connectionString: DATABASE_URL, application_name: 'reindexing' });
    await holder.connect();
    await holder.query('begin; lock table orders in access exclusive mode');
    const outcome = await project.run('migrate', ['revert', '--yes'], { DATABASE_URL });
    await holder.end();
    expect([outcome.code, outcome.stdout]).toEqual([1, '']);
    expect(outcome.stderr).toMatch(
      /Nothing was changed\..*, by:\n  pid \d+, reindexing, idle in transaction, query since /,
    );
    expect(await migrate('show')).toBe(shown(UP_TO_ORDERS.length));
    await revertAll();
  });

  /** Has a person at a terminal answer the question of `migrate revert`. @returns its exit code. */
  async function onTerminal(answer: string): Promise<number | null> {
    const asking = project.onTerminal(['migrate', 'revert'], { DATABASE_URL });
    await asking.says(/rows: 2.*Type yes to revert it: /s);
    asking.type(`${answer}\n`);
    return (await asking.outcome).code;
  }

  it('are shown with when and by which version each was applied, those of later versions too', async () => {
    const url = await project.createMigratedDatabase();
    const change = (sql: string) => administer(url, (dataSource) => dataSource.query(sql));
    const show = (...args: string[]) =>
      project.run('migrate', ['show', ...args], { DATABASE_URL: url });
    await change(
      `insert into migrations (timestamp, name, version) values (9999999999999, 'Later9999999999999', '9.0.0')`,
    );
    const appliedAt = '2026-11-23T01:02:03.000Z';
    await change(`update migrations set applied_at = '${appliedAt}'`);
    await change(
      `update migrations set applied_at = null, version = null where name = '${names[0]}'`,
    );
    await change(`delete from migrations where name = '${names[2]}'`);
    const { version } = JSON.parse(await readFile(join(PROJECT_ROOT, 'package.json'), 'utf8'));

    const { code, stdout } = await show();
    expect([code, stdout.trimEnd().split('\n')]).toEqual([
      0,
      [
        `[X] ${names[0]}\tapplied at an unknown time`,
        `[X] ${names[1]}\tapplied ${appliedAt}\tby version ${version}`,
        `[ ] ${names[2]}`,
        ...names.slice(3).map((name) => `[X] ${name}\tapplied ${appliedAt}\tby version ${version}`),
        `[X] Later9999999999999\tapplied ${appliedAt}\tby version 9.0.0\tnot of this version`,
      ],
    ]);
    const json = await show('--json', '--check');
    expect(json.code).toBe(1);
    const shownAsJson = JSON.parse(json.stdout);
    const [first, , third] = shownAsJson;
    expect(first).toMatchObject({ isApplied: true, appliedAt: null, version: null });
    expect(third).toMatchObject({ name: names[2], isApplied: false, isOfThisVersion: true });
    expect(shownAsJson.at(-1)).toMatchObject({
      appliedAt,
      version: '9.0.0',
      isOfThisVersion: false,
    });

    await change(`insert into migrations (timestamp, name) values (1, '${names[2]}')`);
    expect((await show('--check')).code).toBe(0);
  });

  it('are not made a second time in another schema, by whatever command or search_path', async () => {
    const url = await project.createDatabase();
    await runMigrations(url);
    const asOwner = (sql: string) => administer(url, (dataSource) => dataSource.query(sql));
    const role = `${new URL(url).pathname.slice(1)}_service`;
    await asOwner(`create schema other; grant all on schema other to public;
      create role ${role} login password 'sekrit'; grant select on pets to ${role};
      alter role ${role} set search_path = other`);
    const tables = () => asOwner(`select schemaname from pg_tables where tablename = 'pets'`);
    const pathOf = (path: string) => `${url}?options=-c%20search_path%3D${path}`;
    const asRole = Object.assign(new URL(url), { username: role, password: 'sekrit' }).href;
    const at = (schema: string) => new RegExp(`The tables are in the schema public, ${schema}`);
    for (const DATABASE_URL of [pathOf('other'), pathOf('other,public'), asRole]) {
      for (const args of [['run'], ['revert'], ['sql']]) {
        const outcome = await project.run('migrate', args, { DATABASE_URL });
        expect([outcome.code, outcome.stdout]).toEqual([1, '']);
        expect(outcome.stderr).toMatch(/^Database .+, schema other\.\n[^]*The tables are in the /);
        expect(outcome.stderr).toMatch(at('which is not first in the search_path of the role'));
      }
    }
    for (const DATABASE_URL of [pathOf('other'), asRole]) {
      const variables = { DATABASE_URL, MIGRATE_ON_START: 'true' };
      const { code, stderr } = await project.run('serve', [], variables);
      expect([code, stderr]).toEqual([1, expect.stringMatching(at('which is not first'))]);
      const checked = await project.run('check', [], { DATABASE_URL });
      expect([checked.code, checked.stdout]).toEqual([
        1,
        expect.stringMatching(/, schema other\n[^]*\nFAIL {2}schema: The tables are in /),
      ]);
    }
    await asOwner(`revoke usage on schema public from public`);
    const { stderr } = await project.run('serve', [], { DATABASE_URL: asRole });
    expect(stderr).toMatch(
      at(`on which the role ${role} lacks usage: grant usage on schema public to`),
    );
    expect(await tables()).toEqual([{ schemaname: 'public' }]);
    await asOwner(`drop owned by ${role}; drop role ${role}`);
  });

  it('stop a process that waits for those of another, and that then applies none', async () => {
    const variables = { DATABASE_URL, MIGRATE_ON_START: 'true' };
    await administer(DATABASE_URL, async (dataSource) => {
      await dataSource.query('select pg_advisory_lock(7236102511)');
      const waiting = project.spawn('serve', [], variables);
      const asked = new Set<string>();
      await until('it waits', async () => {
        const waiters = await dataSource.query(
          `select query_start::text as since from pg_stat_activity
            where datname = current_database() and query like 'select pg_try_advisory_xact_lock%'`,
        );
        waiters.forEach(({ since }: { since: string }) => asked.add(since));
        return asked.size > 1;
      });
      expect(await waiting.end('SIGTERM')).toEqual({
        code: 0,
        stdout: '',
        stderr: WAITS,
      });
    });
    expect(await migrate('show')).toBe(shown(0));
  });

  it('are left alone by a command that is misspelt, which gives its usage', async () => {
    for (const args of [[], ['drop'], ['run', 'all']]) {
      const outcome = await project.run('migrate', args, { DATABASE_URL });
      expect(outcome).toEqual({ code: 1, stdout: '', stderr: expect.stringContaining('Usage:') });
    }
  });

  it('are applied once each by four processes that start at once on an empty database', async () => {
    const variables = { NODE_ENV: 'production', DATABASE_URL, MIGRATE_ON_START: 'true' };
    const services = await Promise.all(Array.from({ length: 4 }, () => project.serve(variables)));
    for (const { base } of services) {
      const answer = await fetch(new URL('/health/ready', base));
      expect(answer.status).toBe(200);
    }

    const client = new Client({ connectionString: DATABASE_URL });
    await client.connect();
    const { rows } = await client.query('select name from migrations order by timestamp');
    await client.end();
    expect(rows.map(({ name }) => name)).toEqual(migrations.map(({ name }) => name));

    const outcomes = await Promise.all(services.map(({ program }) => program.end('SIGTERM')));
    const inOrder = { code: 0, stderr: expect.stringMatching(new RegExp(`^(${WAITS})?$`)) };
    expect(outcomes).toEqual(outcomes.map(() => expect.objectContaining(inOrder)));
    // The key is for whoever tries the service out on its embedded database.
    expect(outcomes.map(({ stdout }) => stdout).join()).not.toContain('API key');
  });
});
