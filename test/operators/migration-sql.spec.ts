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

  /** A new database, on which the first migrations may have been applied before bookkeeping had all its columns. */
  async function createDatabase(name: string, applied = 0): Promise<string> {
    await query(server.url, `create database ${name}`);
    const url = server.url.replace(/postgres$/, name);
    if (applied > 0) {
      const client = new Client({ connectionString: url });
      await client.connect();
      // As TypeORM makes it.
      await client.query(
        `CREATE TABLE "migrations" ("id" SERIAL NOT NULL, "timestamp" bigint NOT NULL, "name" character varying NOT NULL,
           CONSTRAINT "PK_8c82d7f526340ab734260ea46be" PRIMARY KEY ("id"))`,
      );
      for (const Each of migrations.slice(0, applied)) {
        await new Each().up(client);
        await client.query('insert into migrations (timestamp, name) values ($1, $2)', [
          Each.name.slice(-13),
          Each.name,
        ]);
      }
      await client.end();
    }
    return url;
  }

  /** Prints the script while the database takes no writes. */
  async function print(DATABASE_URL: string, args: string[] = []): Promise<string> {
    const database = new URL(DATABASE_URL).pathname.slice(1);
    await query(server.url, `alter database ${database} set default_transaction_read_only = on`);
    const outcome = await project.run('migrate', ['sql', ...args], { DATABASE_URL });
    expect(outcome).toMatchObject({ code: 0, stderr: expect.stringContaining(database) });
    await query(server.url, `alter database ${database} reset all`);
    return outcome.stdout;
  }

  const rows = (url: string) =>
    query(url, 'select id, timestamp, name, version from migrations order by id');

  it('leaves the same schema as migrate run, and the same as migrate revert, byte for byte', async () => {
    const [byScript, byCommand] = [await createDatabase('one'), await createDatabase('other')];
    expect(psql(byScript, await print(byScript))).toBe(0);
    expect(await runMigrations(byCommand)).toEqual(MIGRATION_NAMES);
    expect(schema(byScript)).toContain('CREATE TABLE public.orders');
    expect(schema(byScript)).toBe(schema(byCommand));
    expect(await rows(byScript)).toEqual(await rows(byCommand));
    expect((await rows(byScript))[0]!['version']).toMatch(/^\d+\.\d+\.\d+$/);
    expect(await print(byScript)).toBe('-- No migration is pending.\n');

    for (const name of MIGRATION_NAMES.toReversed()) {
      const script = await print(byScript, ['--revert']);
      expect(script).toContain(`Down migration of ${name}`);
      expect(psql(byScript, script)).toBe(0);
      expect(await revertMigration(byCommand)).toBe(name);
      expect(schema(byScript)).toBe(schema(byCommand));
      expect(await rows(byScript)).toEqual(await rows(byCommand));
    }
    expect(await print(byScript, ['--revert'])).toBe('-- No migration is applied.\n');
  });

  it('does so too on a database that was migrated before bookkeeping had its columns', async () => {
    const [byScript, byCommand] = [
      await createDatabase('old', 3),
      await createDatabase('older', 3),
    ];
    const script = await print(byScript);
    expect(script).not.toContain('create table pets');
    expect(psql(byScript, script)).toBe(0);
    expect(await runMigrations(byCommand)).toEqual(MIGRATION_NAMES.slice(3));
    expect(schema(byScript)).toBe(schema(byCommand));
    expect(await rows(byScript)).toEqual(await rows(byCommand));
    const fresh = await createDatabase('fresh');
    await runMigrations(fresh);
    expect(schema(byCommand)).toBe(schema(fresh));
  });

  it('changes nothing if the migrations have changed since, or if a table is locked', async () => {
    const url = await createDatabase('late', 3);
    const script = await print(url);
    const state = async () => [schema(url), await query(url, 'select * from migrations')];
    const before = await state();
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
    expect(await state()).toEqual(before);
  });

  it('says what each migration is for, which locks it takes, and whether it can be reverted', async () => {
    const script = await print(await createDatabase('comments', 3));
    expect(script).toContain(
      [
        `-- 1 of ${migrations.length - 3}: CreateOrders1795222800000`,
        "-- Purpose: Creates orders, which the store's own systems write.",
        '-- Locks until the end: SHARE ROW EXCLUSIVE on pets.',
        '-- Can be reverted: yes. That drops, with all data and grants: orders.',
        'create table orders (',
      ].join('\n'),
    );
  });
});
