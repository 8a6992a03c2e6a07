import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { query } from '../support/ask.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { Project } from '../support/project.js';
import { psql, schema } from '../support/psql.js';
import { until } from '../support/until.js';

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

  async function connect(url: string, application_name: string): Promise<Client> {
    const client = new Client({ connectionString: url, application_name });
    await client.connect();
    clients.push(client);
    return client;
  }

  async function createDatabase(name: string): Promise<string> {
    // Too short for an index, or for any wait.
    const limit = `alter database ${name} set statement_timeout = '300ms'`;
    await query(server.url, `create database ${name}`, limit);
    return server.url.replace(/postgres$/, name);
  }

  const migrate = (DATABASE_URL: string, ...args: string[]) =>
    project.run('migrate', args, { DATABASE_URL });

  const applied = async (url: string) =>
    (await query(url, 'select name from migrations order by id')).map(({ name }) => name);

  /** Applies what comes before the index, and adds two animals. */
  async function prepare(name: string): Promise<string> {
    const url = await createDatabase(name);
    const script = (await migrate(url, 'sql')).stdout;
    expect(psql(url, script.slice(0, script.indexOf(`: ${INDEX}\n`)))).toBe(0);
    await query(url, `insert into pets (name, category_id) values ('Rex', 1), ('Bello', 2)`);
    return url;
  }

  /** The index, and whether it is valid. */
  const index = async (url: string) =>
    (
      await query(
        url,
        `select indisvalid from pg_index where indexrelid = to_regclass('pets_category_id_key')`,
      )
    )[0];

  it('is run, shown, printed and reverted between others that are in transactions', async () => {
    const [byCommand, byScript] = [await createDatabase('one'), await createDatabase('other')];
    const all = [...MIGRATION_NAMES, INDEX, TABLE];
    const script = (await migrate(byScript, 'sql')).stdout;
    const [, between] = script.split(`: ${INDEX}\n`);
    expect(between!.split(`: ${TABLE}\n`)[0]).not.toContain('\nbegin ');
    expect(psql(byScript, script)).toBe(0);

    expect((await migrate(byCommand, 'run')).stdout).toBe(`Applied ${all.join(', ')}.\n`);
    expect(schema(byCommand)).toContain('CREATE UNIQUE INDEX pets_category_id_key');
    expect(schema(byScript)).toBe(schema(byCommand));
    expect([await applied(byCommand), await applied(byScript)]).toEqual([all, all]);
    expect((await migrate(byCommand, 'show', '--check')).stdout).toMatch(
      new RegExp(`^\\[X\\] ${INDEX}\tapplied .+\tby version `, 'm'),
    );
    for (const name of [TABLE, INDEX]) {
      expect(psql(byScript, (await migrate(byScript, 'sql', '--revert')).stdout)).toBe(0);
      expect((await migrate(byCommand, 'revert', '--yes')).stdout).toBe(`Reverted ${name}.\n`);
      expect(schema(byScript)).toBe(schema(byCommand));
    }
    expect(schema(byCommand)).not.toContain('pets_category_id_key');
    expect(await applied(byCommand)).toEqual(MIGRATION_NAMES);
  });

  it.each([
    ['its rows violate it', 'violated', false],
    ['its statement is cancelled', 'cancelled', false],
    ['its client is killed, and PostgreSQL finishes it', 'killed', true],
  ])('is not recorded if %s, and the next run builds it again', async (_title, name, isValid) => {
    const url = await prepare(name);
    const holder = await connect(url, 'report');
    await holder.query('set statement_timeout = 0');
    const same = name === 'violated' ? 1 : 3;
    await holder.query(`begin; insert into pets (name, category_id) values ('Max', ${same})`);
    const building = project.spawn('migrate', ['run'], { DATABASE_URL: url });
    await building.says(/^Waits: .+ is blocked by pid \d+, report, /m, 'stderr');
    if (name === 'cancelled') {
      await holder.query(
        `select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() and query like 'create unique%'`,
      );
    } else if (name === 'killed') {
      building.send('SIGKILL');
    }
    const ended = name === 'violated' ? undefined : await building.outcome;
    await holder.query('commit');
    const { code, stderr } = ended ?? (await building.outcome);
    if (name !== 'killed') {
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(
          `\n${INDEX} runs outside a transaction. It may have left an invalid index, .* Run the command again: it first drops that index.\n$`,
        ),
      ]);
    }
    await until('it is over', async () => {
      const [{ count }] = await query(
        url,
        `select count(*) from pg_locks where locktype = 'advisory'`,
      );
      return count === '0';
    });
    expect(await index(url)).toEqual({ indisvalid: isValid });
    expect(await applied(url)).toEqual(MIGRATION_NAMES);

    await query(url, 'update pets set category_id = id');
    expect((await migrate(url, 'run')).stdout).toBe(`Applied ${INDEX}, ${TABLE}.\n`);
    expect(await index(url)).toEqual({ indisvalid: true });
  });

  it('says which ones were applied before another one failed', async () => {
    const url = await createDatabase('partly');
    await query(url, 'create table toys ()');
    const { code, stderr } = await migrate(url, 'run');
    expect(code).toBe(1);
    expect(stderr).toContain(`Applied ${[...MIGRATION_NAMES, INDEX].join(', ')}, and then failed:`);
    expect(await applied(url)).toEqual([...MIGRATION_NAMES, INDEX]);
  });

  it('waits for transactions and says for which, while others write, and another run waits for it', async () => {
    const url = await prepare('busy');
    const holder = await connect(url, 'report');
    await holder.query('set statement_timeout = 0');
    await holder.query(`begin; insert into pets (name, category_id) values ('Max', 3)`);
    const building = project.spawn('migrate', ['run'], { DATABASE_URL: url });
    await building.says(/^Waits: A lock is blocked by pid \d+, report, idle in tr/m, 'stderr');
    const limits = await query(
      url,
      `select application_name as limits from pg_stat_activity where wait_event_type = 'Lock' and datname = 'busy'`,
    );
    expect(limits).toEqual([{ limits: 'limits 10min 0' }]);
    await query(url, `insert into pets (name, category_id) values ('Rocky', 4)`);
    const other = project.spawn('migrate', ['run'], { DATABASE_URL: url });
    await other.says(/^Another process migrates this database/m, 'stderr');
    await holder.query('commit');
    expect(await building.outcome).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(INDEX),
    });
    expect((await other.outcome).code).toBe(0);
    expect(await applied(url)).toEqual([...MIGRATION_NAMES, INDEX, TABLE]);
  });
});
