import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { MIGRATION_NAMES, migrations } from '../../migrations/index.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { ask, query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { describeWith } from '../support/describe-with.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { Project } from '../support/project.js';
import { psql, schema } from '../support/psql.js';
import { until } from '../support/until.js';

const binaries = await systemBinaries();
const describeWithPsql = describeWith('PostgreSQL', binaries);
let server: Postgres;
beforeAll(async () => {
  server = await Postgres.start([], binaries);
});
afterAll(() => server.stop());

/** @returns the URL of a new database. */
async function createDatabase(name: string, ...statements: string[]): Promise<string> {
  await query(server.url, `create database ${name}`, ...statements);
  return server.url.replace(/postgres$/, name);
}

describeWithPsql('the script of migrate sql, run by psql', () => {
  /** Prints the script while the database takes no writes. */
  async function print(DATABASE_URL: string, command = 'migrate sql'): Promise<string> {
    const database = new URL(DATABASE_URL).pathname.slice(1);
    await query(server.url, `alter database ${database} set default_transaction_read_only = on`);
    const outcome = await runHere(command, { DATABASE_URL });
    expect(outcome).toMatchObject({ code: 0, stderr: expect.stringContaining(database) });
    await query(server.url, `alter database ${database} reset all`);
    return outcome.stdout;
  }

  const state = async (url: string) => ({
    schema: schema(url),
    rows: await query(url, 'select * from migrations order by id'),
  });

  it('leaves the same schema as migrate run, and the same as migrate revert, byte for byte, up, down and up', async () => {
    const [byScript, byCommand] = [await createDatabase('one'), await createDatabase('other')];
    expect(psql(byScript, await print(byScript))).toBe(0);
    expect(await runMigrations(byCommand)).toEqual(MIGRATION_NAMES);
    const migrated = schema(byCommand);
    expect(migrated).toContain('CREATE TABLE public.orders');
    expect(await state(byScript)).toEqual(await state(byCommand));
    expect(await print(byScript)).toBe('-- No migration is pending.\n');
    for (const name of MIGRATION_NAMES.toReversed()) {
      const script = await print(byScript, 'migrate sql --revert');
      expect(script).toContain(`Down migration of ${name}`);
      expect(psql(byScript, script)).toBe(0);
      expect(await revertMigration(byCommand)).toBe(name);
      expect(await state(byScript)).toEqual(await state(byCommand));
    }
    expect(await print(byScript, 'migrate sql --revert')).toBe('-- No migration is applied.\n');
    expect(schema(byCommand)).not.toMatch(
      /CREATE (?!TABLE public\.migrations|SEQUENCE public\.migrations)/,
    );
    expect(await runMigrations(byCommand)).toEqual(MIGRATION_NAMES);
    expect(schema(byCommand)).toBe(migrated);
  });

  it('says what each migration does, and leaves out those that are applied', async () => {
    const url = await createDatabase('old');
    await runMigrations(url);
    while ((await revertMigration(url)) !== 'CreateOrders1795222800000');
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
  });

  it('changes nothing if another role runs it than the owner of the tables, or than the one that printed it', async () => {
    const url = await createDatabase('owned');
    await query(
      url,
      `create role "an ""owner" login password 'x'; grant create on schema public to "an ""owner"`,
    );
    const asOwner = Object.assign(new URL(url), { username: 'an "owner', password: 'x' }).href;
    const owners = () =>
      query(url, `select distinct tableowner as owner from pg_tables where schemaname = 'public'`);
    const first = (await runHere('migrate sql', { DATABASE_URL: asOwner })).stdout;
    expect([psql(url, first), await owners()]).toEqual([3, []]);
    expect([psql(asOwner, first), await owners()]).toEqual([0, [{ owner: 'an "owner' }]]);
    await revertMigration(asOwner);
    const next = await print(url);
    expect(next).toContain('Run this script as the role "an ""owner", with the schema public.');
    expect(psql(url, next)).toBe(3);
    expect(psql(url, `create schema elsewhere; set search_path = elsewhere; ${next}`)).toBe(3);
    expect([psql(url, `set role "an ""owner";\n${next}`), await owners()]).toEqual([
      0,
      [{ owner: 'an "owner' }],
    ]);
  });

  it('changes nothing if the migrations have changed since, or if a table is locked', async () => {
    const url = await createDatabase('late');
    await runMigrations(url);
    while ((await revertMigration(url)) !== 'CreateOrders1795222800000');
    const script = await print(url);
    const before = await state(url);
    const holder = new Client({ connectionString: url });
    await holder.connect();
    await holder.query('begin; lock table pets in access share mode; lock table pets');
    expect(psql(url, script)).toBe(3);
    await holder.end();
    const values = `values (1, '${MIGRATION_NAMES[3]}')`;
    await query(url, `insert into migrations (timestamp, name) ${values}`);
    expect(psql(url, script)).toBe(3);
    await query(url, 'delete from migrations where timestamp = 1');
    expect(await state(url)).toEqual(before);
  });
});

const INDEX = 'IndexCategories1799999999998';
const TABLE = 'CreateToys1799999999999';

/** Migrations after the project's own: an index that is built concurrently, and one in a transaction. */
const MIGRATIONS = `
import { migrations as own } from './own.js';

class ${INDEX} {
  name = '${INDEX}';
  purpose = 'Makes sure of one animal a category.';
  locks = { up: {}, down: {} };
  drops = [];
  transaction = false;
  up = async (session) => {
    await session.query("select set_config('application_name', 'limits ' || current_setting('lock_timeout') || ' ' || current_setting('statement_timeout'), false)");
    await session.query('create unique index concurrently pets_category_id_key on pets (category_id)');
  };
  down = (session) => session.query('drop index concurrently if exists pets_category_id_key');
}

class ${TABLE} {
  name = '${TABLE}';
  purpose = 'Creates toys.';
  locks = { up: {}, down: { toys: 'ACCESS EXCLUSIVE' } };
  drops = ['toys'];
  up = (session) => session.query('create table toys ()');
  down = (session) => session.query('drop table toys');
}

export const migrations = [...own, new ${INDEX}(), new ${TABLE}()];
export const MIGRATION_NAMES = migrations.map(({ name }) => name);
`;

describeWithPsql('a migration that builds an index concurrently', () => {
  const project = Project.ofTests();
  const clients: Client[] = [];
  beforeAll(async () => {
    const folder = join(project.folder, 'dist/migrations');
    await cp(join(folder, 'index.js'), join(folder, 'own.js'));
    await writeFile(join(folder, 'index.js'), MIGRATIONS);
  });
  afterEach(() => Promise.all(clients.splice(0).map((client) => client.end())));

  /** Begins a transaction that has added an animal. */
  async function hold(url: string, category: number): Promise<Client> {
    const client = new Client({ connectionString: url, application_name: 'report' });
    await client.connect();
    clients.push(client);
    await client.query('set statement_timeout = 0');
    await client.query(`begin; insert into pets (name, category_id) values ('Max', ${category})`);
    return client;
  }

  /** As {@link createDatabase}, with the project's own migrations, and too short a limit for an index, or for any wait. */
  async function prepare(name: string): Promise<string> {
    const url = await createDatabase(
      name,
      `alter database ${name} set statement_timeout = '300ms'`,
    );
    await runMigrations(url);
    return url;
  }

  const migrate = async (DATABASE_URL: string, ...args: string[]) =>
    (await project.run('migrate', args, { DATABASE_URL })).stdout;

  const applied = async (url: string) =>
    (await query(url, 'select name from migrations order by id')).map(({ name }) => name);

  /** The index, and whether it is valid. */
  const index = (url: string) =>
    ask(
      url,
      `select indisvalid from pg_index where indexrelid = to_regclass('pets_category_id_key')`,
    );

  it('is run once by two at once, printed and reverted, beside others that are in transactions', async () => {
    const [byCommand, byScript] = [await prepare('tight'), await prepare('tighter')];
    const all = [...MIGRATION_NAMES, INDEX, TABLE];
    const script = await migrate(byScript, 'sql');
    const [, between] = script.split(`: ${INDEX}\n`);
    expect(between!.split(`: ${TABLE}\n`)[0]).not.toContain('\nbegin ');
    expect(psql(byScript, script)).toBe(0);
    const holder = await hold(byCommand, 3);
    const runs = [1, 2].map(() => project.spawn('migrate', ['run'], { DATABASE_URL: byCommand }));
    for (const pattern of [/^Waits for pid /m, /^Another process migrates this database/m]) {
      await Promise.any(runs.map((each) => each.says(pattern, 'stderr')));
    }
    await holder.query('rollback');
    const outcomes = await Promise.all(runs.map(({ outcome }) => outcome));
    expect(outcomes.map(({ code }) => code)).toEqual([0, 0]);
    expect(schema(byCommand)).toContain('CREATE UNIQUE INDEX pets_category_id_key');
    expect(schema(byScript)).toBe(schema(byCommand));
    expect([await applied(byCommand), await applied(byScript)]).toEqual([all, all]);

    for (const url of [byCommand, byScript]) {
      await query(url, 'drop table toys', `delete from migrations where name = '${TABLE}'`);
    }
    expect(psql(byScript, await migrate(byScript, 'sql', '--revert'))).toBe(0);
    expect(await migrate(byCommand, 'revert', '--yes')).toBe(`Reverted ${INDEX}.\n`);
    expect(schema(byCommand)).not.toContain('pets_category_id_key');
    expect(schema(byScript)).toBe(schema(byCommand));
    expect(await applied(byCommand)).toEqual(MIGRATION_NAMES);
  });

  it.each([
    ['its rows violate it', 'violated', false],
    ['its client is killed, and PostgreSQL finishes it', 'killed', true],
  ])('is not recorded if %s, and the next run builds it again', async (_title, name, isValid) => {
    const url = await prepare(name);
    await query(url, `insert into pets (name, category_id) values ('Rex', 1), ('Bello', 2)`);
    const holder = await hold(url, isValid ? 3 : 1);
    const building = project.spawn('migrate', ['run'], { DATABASE_URL: url });
    await building.says(/^Waits for pid \d+, report, idle in tr/m, 'stderr');
    // Others write meanwhile.
    await query(url, `insert into pets (name, category_id) values ('Rocky', 4)`);
    const limits = `select application_name as limits from pg_stat_activity
      where wait_event_type = 'Lock' and datname = current_database()`;
    expect(await query(url, limits)).toEqual([{ limits: 'limits 10min 0' }]);
    if (isValid) {
      await building.end('SIGKILL');
    }
    await holder.query('commit');
    if (!isValid) {
      expect(await building.outcome).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/\nPostgreSQL reports: could not create unique index .+\n$/),
      });
    }
    const locks = `select from pg_locks where locktype = 'advisory'`;
    await until('it is over', async () => (await ask(url, locks)) === undefined);
    expect(await index(url)).toEqual({ indisvalid: isValid });
    expect(await applied(url)).toEqual(MIGRATION_NAMES);

    await query(url, 'update pets set category_id = id');
    expect(await migrate(url, 'run')).toBe(`Applied ${INDEX}, ${TABLE}.\n`);
    expect(await index(url)).toEqual({ indisvalid: true });
  });
});
