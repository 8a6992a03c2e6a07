import { Client } from 'pg';
import { MIGRATION_NAMES, migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { ask, query } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { runHere } from '../support/command.js';
import { describeWith, itWith } from '../support/describe-with.js';
import { psql } from '../support/psql.js';
import { revertToOrders } from '../support/revert-to-orders.js';
import {
  createDatabase,
  createMigratedDatabase,
  dropDatabase,
  onServer,
} from '../support/service.js';
import { until } from '../support/until.js';

const urls: string[] = [];
const databaseBy = async (create: () => Promise<string>) => {
  urls.push(await create());
  return urls.at(-1)!;
};
const newDatabase = () => databaseBy(createDatabase);
const newMigratedDatabase = () => databaseBy(createMigratedDatabase);
const nameOf = (url: string) => new URL(url).pathname.slice(1);
const alterDatabase = (url: string, how: string) =>
  onServer(`alter database ${nameOf(url)} ${how}`);
const state = async (url: string) => ({
  schema: await catalog(url),
  rows: await query(url, 'select * from migrations order by id'),
});
const applied = async (url: string) => (await state(url)).rows.map(({ name }) => name);

/** Prints the script, while the database takes no writes. */
async function print(DATABASE_URL: string, command = 'migrate sql'): Promise<string> {
  await alterDatabase(DATABASE_URL, 'set default_transaction_read_only = on');
  const outcome = await runHere(command, { DATABASE_URL });
  expect(outcome).toMatchObject({ code: 0, stderr: expect.stringContaining(nameOf(DATABASE_URL)) });
  await alterDatabase(DATABASE_URL, 'reset default_transaction_read_only');
  return outcome.stdout;
}

afterAll(() => Promise.all(urls.map(dropDatabase)));

describeWith('psql')('the script of migrate sql, run by psql', () => {
  it('says what each migration does, leaves out those that are applied, and changes nothing once others are or a table is locked', async () => {
    const url = await newMigratedDatabase();
    await revertToOrders(url);
    await revertMigration(url);
    const script = await print(url);
    expect(script).not.toContain('create table pets');
    const head = [
      `-- 1 of ${migrations.length - 3}: CreateOrders1795222800000`,
      "-- Purpose: Creates orders, which the store's own systems write.",
      '-- Locks until the end: SHARE ROW EXCLUSIVE on pets.',
      '-- A revert drops, with all data and grants: orders.\nbegin ',
    ];
    expect(script).toContain(head.join('\n'));
    expect(script).toMatch(
      /: DistributeTables.+\n(-- .+\n)*-- On Citus, locks until the end: ACCESS EXCLUSIVE on pets, .+ on orders\.\n/,
    );
    const before = await state(url);
    const holder = new Client({ connectionString: url });
    await holder.connect();
    await holder.query('begin; lock table pets in access share mode; lock table pets');
    expect(psql(url, script)).toBe(3);
    await holder.end();
    await query(
      url,
      `insert into migrations (timestamp, name) values (1, '${MIGRATION_NAMES[3]}')`,
    );
    expect(psql(url, script)).toBe(3);
    await query(url, 'delete from migrations where timestamp = 1');
    expect(await state(url)).toEqual(before);
  });

  it('changes nothing if another role runs it than the owner of the tables, or in another schema', async () => {
    const url = await newDatabase();
    const owner = `${nameOf(url)} "owner`;
    const quoted = `"${owner.replace('"', '""')}"`;
    await query(
      url,
      `create role ${quoted} login password 'x'; grant create on schema public to ${quoted}`,
    );
    const asOwner = Object.assign(new URL(url), { username: owner, password: 'x' }).href;
    const owners = async () => {
      const tables = `select tableowner from pg_tables where schemaname = 'public'`;
      return [...new Set((await query(url, tables)).map(({ tableowner }) => tableowner))];
    };
    // Without tables, of the one that printed it.
    const first = (await runHere('migrate sql', { DATABASE_URL: asOwner })).stdout;
    expect([psql(url, first), await owners()]).toEqual([3, []]);
    expect([psql(asOwner, first), await owners()]).toEqual([0, [owner]]);
    await revertMigration(asOwner);
    const next = await print(url);
    expect(next).toContain(`Run this script as the role ${quoted}, with the schema public.`);
    expect(psql(url, next)).toBe(3);
    expect(psql(url, `create schema elsewhere; set search_path = elsewhere; ${next}`)).toBe(3);
    expect(psql(url, `set role ${quoted};\n${next}`)).toBe(0);
    expect(await owners()).toEqual([owner]);
    await query(url, `drop owned by ${quoted}`, `drop role ${quoted}`);
  });
});

/** After the project's own: one that builds an index concurrently, and one in a transaction. */
const LATER: Migration[] = [
  {
    name: 'IndexCategories1799999999998',
    purpose: 'Makes sure of one animal a category.',
    locks: { up: {}, down: {} },
    drops: [],
    transaction: false,
    up: async (session) => {
      // For others to see.
      const limits = `'limits ' || current_setting('lock_timeout') || ' ' || current_setting('statement_timeout')`;
      await session.query(`select set_config('application_name', ${limits}, false)`);
      await session.query('create unique index concurrently one_pet on pets (category_id)');
    },
    down: async (session) => void session.query('drop index concurrently if exists one_pet'),
  },
  {
    name: 'CreateToys1799999999999',
    purpose: 'Creates toys.',
    locks: { up: {}, down: { toys: 'ACCESS EXCLUSIVE' } },
    drops: ['toys'],
    up: async (session) => void session.query('create table toys ()'),
    down: async (session) => void session.query('drop table toys'),
  },
];
const [INDEX, TABLE] = LATER.map(({ name }) => name) as [string, string];

describe('a migration that builds an index concurrently', () => {
  const own = [...MIGRATION_NAMES];
  beforeAll(() => {
    (migrations as Migration[]).push(...LATER);
    MIGRATION_NAMES.push(INDEX, TABLE);
  });
  afterAll(() => {
    (migrations as Migration[]).splice(-2);
    MIGRATION_NAMES.splice(-2);
  });

  itWith('psql')(
    'does by the script of migrate sql, as all others do, what it does by migrate run and migrate revert, up, down and up again',
    async () => {
      const [byScript, byCommand] = [await newDatabase(), await newDatabase()];
      const empty = await catalog(byCommand);
      const script = await print(byScript);
      const [, between] = script.split(`: ${INDEX}\n`);
      expect(between!.split(`: ${TABLE}\n`)[0]).not.toContain('\nbegin ');
      expect(psql(byScript, script)).toBe(0);
      expect(await runMigrations(byCommand)).toEqual(MIGRATION_NAMES);
      const migrated = await state(byCommand);
      expect(migrated.schema['columns']!.length).toBeGreaterThan(10);
      expect(await state(byScript)).toEqual(migrated);
      expect(await print(byScript)).toBe('-- No migration is pending.\n');
      for (const name of MIGRATION_NAMES.toReversed()) {
        const revert = await print(byScript, 'migrate sql --revert');
        expect(revert).toContain(`Down migration of ${name}`);
        expect(psql(byScript, revert)).toBe(0);
        expect(await revertMigration(byCommand)).toBe(name);
        expect(await state(byScript)).toEqual(await state(byCommand));
      }
      expect(await print(byScript, 'migrate sql --revert')).toBe('-- No migration is applied.\n');
      expect(await catalog(byCommand)).toEqual(empty);
      await runMigrations(byCommand);
      expect(await catalog(byCommand)).toEqual(migrated.schema);
    },
  );

  const add = (category: number) =>
    `insert into pets (name, category_id) values ('Rex', ${category})`;
  const isValid = async (url: string) => {
    const sql = `select indisvalid from pg_index where indexrelid = to_regclass('one_pet')`;
    return (await ask(url, sql))?.indisvalid;
  };

  it('waits for transactions and blocks no writes; two commands at once run it once, beside others', async () => {
    const url = await newMigratedDatabase();
    // Too short for an index.
    await alterDatabase(url, `set statement_timeout = '300ms'`);
    const holder = new Client({ connectionString: url, application_name: 'report' });
    await holder.connect();
    const told = jest.spyOn(console, 'error').mockImplementation(() => {});
    const tells = (pattern: RegExp) =>
      until(`it says ${pattern}`, () => told.mock.calls.some(([text]) => pattern.test(text)));
    await holder.query(`set statement_timeout = 0; begin; ${add(1)}`);
    const runs = [runMigrations(url), runMigrations(url)];
    await tells(/^Waits for pid \d+, report, idle in transaction/);
    await tells(/^Another process migrates this database/);
    await query(url, add(2));
    const limits = `select application_name as limits from pg_stat_activity
      where wait_event_type = 'Lock' and datname = current_database()`;
    expect(await query(url, limits)).toEqual([{ limits: 'limits 10min 0' }]);
    await holder.query('commit');
    expect((await Promise.all(runs)).flat()).toEqual([INDEX, TABLE]);
    told.mockRestore();
    await holder.end();
    expect([await applied(url), await isValid(url)]).toEqual([[...own, INDEX, TABLE], true]);
  });

  it('is not recorded if its rows violate it; the next run drops what was left, and builds it again', async () => {
    const url = await newMigratedDatabase();
    await query(url, add(1), add(1));
    await expect(runMigrations(url)).rejects.toThrow('could not create unique index');
    expect([await applied(url), await isValid(url)]).toEqual([own, false]);
    await query(url, 'update pets set category_id = id');
    expect(await runMigrations(url)).toEqual([INDEX, TABLE]);
    expect(await isValid(url)).toBe(true);
  });
});
