import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { Project } from '../support/project.js';
import { psql, schema } from '../support/psql.js';

const binaries = await systemBinaries();

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

  async up(session) {
    await session.query("select set_config('application_name', 'limits ' || current_setting('lock_timeout') || ' ' || current_setting('statement_timeout'), false)");
    await session.query('create unique index concurrently pets_category_id_key on pets (category_id)');
  }

  async down(session) {
    await session.query('drop index concurrently if exists pets_category_id_key');
  }
}

class ${TABLE} {
  name = '${TABLE}';
  purpose = 'Creates toys.';
  locks = { up: {}, down: { toys: 'ACCESS EXCLUSIVE' } };
  drops = ['toys'];

  async up(session) {
    await session.query('create table toys ()');
  }

  async down(session) {
    await session.query('drop table toys');
  }
}

export const migrations = [...own, ${INDEX}, ${TABLE}];
export const MIGRATION_NAMES = migrations.map(({ name }) => name);
`;

(binaries ? describe : describe.skip)('a migration that builds an index concurrently', () => {
  const project = Project.ofTests();
  let server: Postgres;
  const clients: Client[] = [];
  beforeAll(async () => {
    const folder = join(project.folder, 'dist/migrations');
    await cp(join(folder, 'index.js'), join(folder, 'own.js'));
    await writeFile(join(folder, 'index.js'), MIGRATIONS);
    server = await Postgres.start([], binaries!);
  });
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.end()));
  });
  afterAll(() => server.stop());

  async function connect(url: string, application_name = 'test'): Promise<Client> {
    const client = new Client({ connectionString: url, application_name });
    await client.connect();
    clients.push(client);
    return client;
  }

  async function createDatabase(name: string): Promise<string> {
    const client = await connect(server.url);
    await client.query(`create database ${name}`);
    // Too short for an index, or for any wait.
    await client.query(`alter database ${name} set statement_timeout = '300ms'`);
    return server.url.replace(/postgres$/, name);
  }

  const migrate = (DATABASE_URL: string, ...args: string[]) =>
    project.run('migrate', args, { DATABASE_URL });

  const applied = async (client: Client) =>
    (await client.query('select name from migrations order by id')).rows.map(({ name }) => name);

  it('is run, shown, printed and reverted between others that are in transactions', async () => {
    const [byCommand, byScript] = [await createDatabase('one'), await createDatabase('other')];
    const all = [...MIGRATION_NAMES, INDEX, TABLE];
    const script = (await migrate(byScript, 'sql')).stdout;
    expect(script.split('\nbegin ')).toHaveLength(3);
    const [, between] = script.split('\ncommit;\n');
    expect(between!.split('\nbegin ')[0]).toContain('\ncreate unique index concurrently ');
    expect(psql(byScript, script)).toBe(0);

    expect((await migrate(byCommand, 'run')).stdout).toBe(`Applied ${all.join(', ')}.\n`);
    expect(schema(byCommand)).toContain('CREATE UNIQUE INDEX pets_category_id_key');
    expect(schema(byScript)).toBe(schema(byCommand));
    const client = await connect(byCommand);
    expect(await applied(client)).toEqual(all);
    expect(await applied(await connect(byScript))).toEqual(all);
    expect((await migrate(byCommand, 'show', '--check')).stdout).toMatch(
      new RegExp(`^\\[X\\] ${INDEX}\tapplied .+\tby version `, 'm'),
    );

    for (const name of [TABLE, INDEX]) {
      expect(psql(byScript, (await migrate(byScript, 'sql', '--revert')).stdout)).toBe(0);
      expect((await migrate(byCommand, 'revert', '--yes')).stdout).toBe(`Reverted ${name}.\n`);
      expect(schema(byScript)).toBe(schema(byCommand));
    }
    expect(schema(byCommand)).not.toContain('pets_category_id_key');
    expect(await applied(client)).toEqual(MIGRATION_NAMES);
  });

  it('says what a failed one left and how to repair it, and is applied after the repair', async () => {
    const url = await createDatabase('failed');
    const client = await connect(url);
    const script = (await migrate(url, 'sql')).stdout;
    const before = script.slice(0, script.indexOf('\n-- Outside a transaction.'));
    expect(psql(url, before)).toBe(0);
    await client.query(`insert into pets (name, category_id) values ('Rex', 1), ('Bello', 1)`);
    const failed = await migrate(url, 'run');
    expect(failed.code).toBe(1);
    expect(failed.stderr).toMatch(
      /could not create unique index [^]*stay applied\.\nAn index is invalid: .*\n {2}drop index concurrently pets_category_id_key;\n$/,
    );
    const again = await migrate(url, 'run');
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('already exists')]);
    expect(await applied(client)).toEqual(MIGRATION_NAMES);

    const [repair] = /drop index concurrently .+;/.exec(again.stderr)!;
    await client.query(repair);
    await client.query(`update pets set category_id = id`);
    expect((await migrate(url, 'run')).stdout).toBe(`Applied ${INDEX}, ${TABLE}.\n`);
    const { rows } = await client.query('select from pg_index where not indisvalid');
    expect(rows).toEqual([]);
  });

  it('says which ones were applied before it failed', async () => {
    const url = await createDatabase('partly');
    const client = await connect(url);
    await client.query('create table toys ()');
    const { code, stderr } = await migrate(url, 'run');
    expect(code).toBe(1);
    expect(stderr).toContain(`Applied ${[...MIGRATION_NAMES, INDEX].join(', ')}, and then failed:`);
    expect(await applied(client)).toEqual([...MIGRATION_NAMES, INDEX]);
  });

  it('waits for transactions and says for which, while others write, and another run waits for it', async () => {
    const url = await createDatabase('busy');
    const holder = await connect(url, 'report');
    await holder.query('set statement_timeout = 0');
    const script = (await migrate(url, 'sql')).stdout;
    expect(psql(url, script.slice(0, script.indexOf('\n-- Outside a transaction.')))).toBe(0);
    await holder.query(`begin; insert into pets (name, category_id) values ('Rex', 1)`);
    const run = () =>
      project.start('sh', ['-c', 'exec node dist/src/main.js migrate run 2>&1'], {
        DATABASE_URL: url,
      });
    const building = run();
    await building.says(/^Waits for pid \d+, report, idle in transaction, /m);
    const client = await connect(url);
    const { rows } = await client.query(
      `select application_name as limits from pg_stat_activity where wait_event_type = 'Lock' and datname = 'busy'`,
    );
    expect(rows).toEqual([{ limits: 'limits 10min 0' }]);
    await client.query(`insert into pets (name, category_id) values ('Bello', 2)`);
    const other = run();
    await other.says(/^Another process migrates this database/m);
    await holder.query('commit');
    const [built, found] = await Promise.all([building.outcome, other.outcome]);
    expect([built.code, built.stdout]).toEqual([0, expect.stringContaining(`Applied ${INDEX}, `)]);
    expect(found.code).toBe(0);
    expect(await applied(client)).toEqual([...MIGRATION_NAMES, INDEX, TABLE]);
    const { rows: left } = await client.query(
      `select from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = 'busy')`,
    );
    expect(left).toEqual([]);
  });
});
