import { Client } from 'pg';
import { MIGRATION_NAMES, migrations } from '../../migrations/index.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { Project } from '../support/project.js';
import { psql, schema } from '../support/psql.js';

const binaries = await systemBinaries();

(binaries ? describe : describe.skip)('the script of migrate sql, run by psql', () => {
  const project = Project.ofTests();
  let server: Postgres;
  beforeAll(async () => {
    server = await Postgres.start([], binaries!);
  });
  afterAll(() => server.stop());

  /** @returns the URL of a new database. */
  async function createDatabase(name: string): Promise<string> {
    await query(server.url, `create database ${name}`);
    return server.url.replace(/postgres$/, name);
  }

  /** As {@link createDatabase}, with the first three migrations, which TypeORM itself has recorded. */
  async function createOldDatabase(name: string): Promise<string> {
    const url = await createDatabase(name);
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query(
      `CREATE TABLE "migrations" ("id" SERIAL NOT NULL, "timestamp" bigint NOT NULL, "name" character varying NOT NULL,
         CONSTRAINT "PK_8c82d7f526340ab734260ea46be" PRIMARY KEY ("id"))`,
    );
    for (const Each of migrations.slice(0, 3)) {
      await new Each().up(client);
      const row = `(${Each.name.slice(-13)}, '${Each.name}')`;
      await client.query(`insert into migrations (timestamp, name) values ${row}`);
    }
    await client.end();
    return url;
  }

  /** Prints the script while the database takes no writes. */
  async function print(DATABASE_URL: string, ...args: string[]): Promise<string> {
    const database = new URL(DATABASE_URL).pathname.slice(1);
    await query(server.url, `alter database ${database} set default_transaction_read_only = on`);
    const outcome = await project.run('migrate', ['sql', ...args], { DATABASE_URL });
    expect(outcome).toMatchObject({ code: 0, stderr: expect.stringContaining(database) });
    await query(server.url, `alter database ${database} reset all`);
    return outcome.stdout;
  }

  const state = async (url: string) => ({
    schema: schema(url),
    rows: await query(
      url,
      `select id, timestamp, name, to_jsonb(migrations) ->> 'version' as version from migrations order by id`,
    ),
  });

  it('leaves the same schema as migrate run, and the same as migrate revert, byte for byte', async () => {
    const [byScript, byCommand] = [await createDatabase('one'), await createDatabase('other')];
    expect(psql(byScript, await print(byScript))).toBe(0);
    expect(await runMigrations(byCommand)).toEqual(MIGRATION_NAMES);
    expect(schema(byScript)).toContain('CREATE TABLE public.orders');
    expect(await state(byScript)).toEqual(await state(byCommand));
    expect((await state(byScript)).rows[0]!['version']).toMatch(/^\d+\.\d+\.\d+$/);
    expect(await print(byScript)).toBe('-- No migration is pending.\n');
    for (const name of MIGRATION_NAMES.toReversed()) {
      const script = await print(byScript, '--revert');
      expect(script).toContain(`Down migration of ${name}`);
      expect(psql(byScript, script)).toBe(0);
      expect(await revertMigration(byCommand)).toBe(name);
      expect(await state(byScript)).toEqual(await state(byCommand));
    }
    expect(await print(byScript, '--revert')).toBe('-- No migration is applied.\n');
  });

  it('does so too on a database whose migrations TypeORM recorded, and says what each migration does', async () => {
    const [byScript, byCommand, fresh] = [
      await createOldDatabase('old'),
      await createOldDatabase('older'),
      await createDatabase('fresh'),
    ];
    const script = await print(byScript);
    expect(script).not.toContain('create table pets');
    expect(script).toContain(
      [
        `-- 1 of ${migrations.length - 3}: CreateOrders1795222800000`,
        "-- Purpose: Creates orders, which the store's own systems write.",
        '-- Locks until the end: SHARE ROW EXCLUSIVE on pets.',
        '-- A revert drops, with all data and grants: orders.',
        'begin ',
      ].join('\n'),
    );
    expect(psql(byScript, script)).toBe(0);
    expect(await runMigrations(byCommand)).toEqual(MIGRATION_NAMES.slice(3));
    expect(await state(byScript)).toEqual(await state(byCommand));
    await runMigrations(fresh);
    expect(schema(byCommand)).toBe(schema(fresh));
  });

  it('names the locks that a migration takes on Citus alone', async () => {
    const [, distributing] = (await print(await createDatabase('citus'))).split(
      ': DistributeTables',
    );
    expect(distributing).toMatch(
      /\n-- On Citus, locks until the end: ACCESS EXCLUSIVE on pets, .+ on orders\.\n/,
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
    const first = (await project.run('migrate', ['sql'], { DATABASE_URL: asOwner })).stdout;
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
    const url = await createOldDatabase('late');
    const script = await print(url);
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
});
