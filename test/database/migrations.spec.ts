import { Client } from 'pg';
import { MIGRATION_NAMES, migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import { administrativeDataSource } from '../../src/database/data-source.js';
import { administer } from '../../src/database/connect.js';
import { lastMigration, revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { OperatorError } from '../../src/errors/operator-error.js';
import { query } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { revertToOrders, UP_TO_ORDERS } from '../support/revert-to-orders.js';
import {
  createDatabase,
  createMigratedDatabase,
  dropDatabase,
  revertLast,
} from '../support/database.js';
import { entitiesOfSource } from '../support/entities.js';
import { SEEMING_CITUS } from '../support/seeming-citus.js';

describe('the migrations', () => {
  it('make the tables of the entities, to each column, index, constraint and default', async () => {
    const [generated, migrated] = await Promise.all([createDatabase(), createMigratedDatabase()]);
    await query(migrated, 'drop table idempotency_keys');
    const entities = administrativeDataSource(generated, await entitiesOfSource());
    await entities.initialize();
    await entities.synchronize();
    await entities.destroy();
    expect(await catalog(generated)).toEqual(await catalog(migrated));
    await Promise.all([generated, migrated].map(dropDatabase));
  });

  it('are undone in the order in which they were applied, as far as this code has them', async () => {
    const url = await createMigratedDatabase();
    await revertToOrders(url);
    const change = (sql: string) => query(url, sql);
    await change(`update migrations set id = id + 100 where name like 'CreateIdempotencyKeys%'`);
    // A row that was updated is stored after all others.
    await change(`update migrations set name = name where name like 'CreatePets%'`);
    expect(await revertLast(url)).toMatch(/^CreateIdempotencyKeys/);
    const orders = await administer(url, lastMigration);
    expect(orders!.name).toMatch(/^CreateOrders/);
    await revertMigration(url, orders!);
    await expect(revertMigration(url, orders!)).rejects.toThrow(/^Nothing was changed: /);
    await change(`insert into migrations (timestamp, name) values (1, 'Later9999999999999')`);
    await expect(revertLast(url)).rejects.toThrow(OperatorError);
    await change(`delete from migrations where timestamp = 1`);
    expect(await runMigrations(url)).toEqual(MIGRATION_NAMES.slice(UP_TO_ORDERS.length - 2));
    // Another session has reverted all.
    const latest = await administer(url, lastMigration);
    await change('delete from migrations');
    await expect(revertMigration(url, latest!)).rejects.toThrow(/^Nothing was changed: /);
    await dropDatabase(url);
  });

  it('bind the records of idempotency keys to their API keys again when reverted, without those of deleted ones', async () => {
    const url = await createMigratedDatabase();
    const keys = async () =>
      (await query(url, 'select key from idempotency_keys order by key')).map(({ key }) => key);
    await query(url, ROWS, 'delete from api_keys where id = 20');
    expect(await keys()).toEqual(['of 20', 'of 21', 'of 22']);
    await revertTo(url, 'DropApiKeyOfIdempotencyKeys');
    expect(await keys()).toEqual(['of 21', 'of 22']);
    await query(url, 'delete from api_keys where id = 21');
    expect(await keys()).toEqual(['of 22']);
    await expect(query(url, recordOf(20, 1000))).rejects.toMatchObject({ code: '23503' });
    await runMigrations(url);
    await query(url, recordOf(20, 1000));
    expect(await keys()).toEqual(['of 20', 'of 22']);
    await dropDatabase(url);
  });

  // npm run test:citus does it on a cluster. Here, the functions of the extension only note that they were called.
  it('that distribute the tables drop their foreign keys, and cannot be reverted while there are distributed ones', async () => {
    const url = await createDatabase();
    await query(url, SEEMING_CITUS);
    await runMigrations(url);
    expect(await query(url, 'select * from distributed')).toEqual([
      { name: 'pets', by: 'id' },
      { name: 'orders', by: 'id' },
      { name: 'idempotency_keys', by: 'key' },
    ]);
    expect(await query(url, `select from pg_constraint where contype = 'f'`)).toEqual([]);
    await query(url, ROWS);
    await expect(revertTo(url, 'DistributeTables')).rejects.toThrow(/cannot be made local/);
    expect(await query(url, `select from pg_constraint where contype = 'f'`)).toEqual([]);
    expect(await query(url, 'select from pets')).toHaveLength(3);
    await dropDatabase(url);
  });

  it.each(['pets', 'orders', 'idempotency_keys'])(
    'that distribute the tables cannot be reverted while %s alone is distributed',
    async (table) => {
      const url = await createDatabase();
      await query(url, SEEMING_CITUS);
      await runMigrations(url);
      const others = ['pets', 'orders', 'idempotency_keys'].filter((one) => one !== table);
      await query(url, ...others.map((one) => `drop trigger seeming on ${one}`));
      await expect(revertTo(url, 'DistributeTables')).rejects.toThrow(/cannot be made local/);
      await dropDatabase(url);
    },
  );

  it('keep the tables and their grants if the extension was created afterwards, reverted and applied', async () => {
    const url = await createMigratedDatabase();
    const grants = () =>
      query(
        url,
        `select relacl::text, oid from pg_class where relkind = 'r' and relacl is not null order by oid`,
      );
    await query(url, 'grant select on pets, orders, api_keys, idempotency_keys to pg_monitor');
    const before = await grants();
    await query(url, SEEMING_CITUS);
    await revertTo(url, 'DistributeTables');
    expect(await grants()).toEqual(before);
    await runMigrations(url);
    expect(await query(url, 'select from distributed')).toHaveLength(3);
    expect(await grants()).toEqual(before);
    await dropDatabase(url);
  });
});

/** Reverts the last migrations, the one with this beginning of its name included. */
async function revertTo(url: string, name: string): Promise<void> {
  while (!(await revertLast(url)).startsWith(name));
}

/** Where the ids of {@link ROWS} begin. */
const IDS = { pets: 1000, api_keys: 20, orders: 300 };

const recordOf = (apiKey: number, pet: number) =>
  `insert into idempotency_keys (api_key_id, key, body_hash, pet_id) values (${apiKey}, 'of ${apiKey}', '', ${pet})`;

/** Three pets, three API keys, a record of each of these, and two orders. */
const ROWS = `
  ${Object.entries(IDS)
    .map(([table, id]) => `alter table ${table} alter column id restart with ${id};`)
    .join('\n')}
  insert into pets (name, category_id) select 'Rex', 1 from generate_series(1, 3);
  insert into api_keys (name, hash) select 'key', sha256(n::text::bytea) from generate_series(1, 3) as n;
  ${[0, 1, 2].map((n) => recordOf(20 + n, 1000 + n)).join(';\n')};
  insert into orders (pet_id) values (1000), (1001)`;

type Way = 'up' | 'down';

/** Table locks that keep somebody's writes waiting, weakest first: as pg_locks and as a migration names them. */
const MODES = {
  ShareLock: 'SHARE',
  ShareRowExclusiveLock: 'SHARE ROW EXCLUSIVE',
  ExclusiveLock: 'EXCLUSIVE',
  AccessExclusiveLock: 'ACCESS EXCLUSIVE',
};

/** Each table with its columns and this session's locks. */
const TABLES = `
  select oid, relname as name, relfilenode as file,
         array(select attname::text from pg_attribute
                where attrelid = pg_class.oid and attnum > 0 and not attisdropped) as columns,
         array(select mode from pg_locks where pid = pg_backend_pid() and relation = pg_class.oid) as modes
    from pg_class
   where relkind = 'r' and relnamespace = 'public'::regnamespace`;

/** What a migration does to the tables that exist before. It is done in a transaction, which stays open. */
async function effects(client: Client, migration: Migration, way: Way) {
  await client.query('begin');
  const { rows: before } = await client.query(TABLES);
  await migration[way](client);
  const { rows: after } = await client.query(TABLES);
  const locks: Record<string, string> = {};
  const drops: string[] = [];
  const rewrites: string[] = [];
  for (const { oid, name, file, columns } of before) {
    const now = after.find((it) => it.oid === oid);
    if (now === undefined) {
      // Only the strongest lock allows it.
      locks[name] = MODES.AccessExclusiveLock;
      drops.push(name);
      continue;
    }
    // A statement that needs the strongest lock may have taken a weaker one before.
    const [, lock] = Object.entries(MODES).findLast(([mode]) => now.modes.includes(mode)) ?? [];
    if (lock !== undefined) {
      locks[name] = lock;
    }
    if (now.file !== file) {
      rewrites.push(name);
    }
    const dropped = columns.filter((column: string) => !now.columns.includes(column));
    drops.push(...dropped.map((column: string) => `${name}.${column}`));
  }
  return { locks, rewrites, drops: drops.toSorted() };
}

it('a migration takes the locks, writes the tables anew and drops the tables that it names', async () => {
  const url = await createDatabase();
  const client = new Client({ connectionString: url });
  await client.connect();
  for (const [way, each] of [
    ...migrations.map((it) => ['up', it] as const),
    ...migrations.toReversed().map((it) => ['down', it] as const),
  ]) {
    expect(each.purpose).toMatch(/^[A-Z].+\.$/);
    if (each.transaction === false) {
      const sent: string[] = [];
      await each[way]({ query: async (sql) => sent.push(sql.trim()) });
      expect(sent).toEqual([
        // What an interrupted attempt left, or has dropped, must be no error for the next one.
        expect.stringMatching(
          /^(create (unique )?index concurrently|drop index concurrently if exists) /,
        ),
      ]);
      await each[way](client);
    } else {
      const migration = { name: each.name, way };
      expect({ ...migration, ...(await effects(client, each, way)) }).toEqual({
        ...migration,
        locks: each.locks[way],
        rewrites: [...(each.rewrites?.[way] ?? [])],
        drops: way === 'down' ? each.drops.toSorted() : [],
      });
      await client.query('commit');
    }
  }
  await client.end();
  await dropDatabase(url);
});
