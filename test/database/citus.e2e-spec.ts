import { Client } from 'pg';
import { DistributeTables1795226400000 } from '../../migrations/1795226400000-distribute-tables.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { CITUS_URL } from '../support/citus.js';
import { revertToOrders } from '../support/revert-to-orders.js';
import { createMigratedDatabase, dropDatabase } from '../support/database.js';
import { startService, type TestService } from '../support/service.js';

if (CITUS_URL === undefined) {
  console.warn('Citus is not tested: TEST_CITUS_URL names no coordinator.');
}

const MIN = '-9223372036854775808';
const MAX = '9223372036854775807';

// Skipped without TEST_CITUS_URL: Citus is not part of PostgreSQL, and CI has none. There, stores.spec.ts tests its
// statements on PostgreSQL. The tests of the operations also run on Citus, if TEST_DATABASE_URL is the same URL.
const describeOnCitus = CITUS_URL === undefined ? describe.skip : describe;

describeOnCitus('the migrations on Citus', () => {
  let url: string;
  const ask = (...sql: string[]) => query(url, ...sql);
  beforeEach(async () => {
    url = await createMigratedDatabase(CITUS_URL);
  });
  afterEach(() => dropDatabase(url));

  const tables = () =>
    ask(
      `select table_name::text as name, citus_table_type as type, distribution_column as column
         from citus_tables order by 1`,
    );

  it('distribute the tables, with orders by the ids of pets; revert, and distribute again, with all rows and the next ids, also from nothing', async () => {
    expect(await tables()).toEqual([
      { name: 'api_keys', type: 'reference', column: '<none>' },
      { name: 'idempotency_keys', type: 'distributed', column: 'key' },
      { name: 'orders', type: 'distributed', column: 'id' },
      { name: 'pets', type: 'distributed', column: 'id' },
    ]);
    await ask(
      `insert into api_keys (name, hash) values ('key', sha256('key'))`,
      `insert into pets (name, category_id) select 'pet ' || n, n from generate_series(1, 100) as n`,
      `insert into pets (id, name, category_id) values (${MIN}, 'min', ${MIN}), (${MAX}, 'max', ${MAX})`,
      `insert into orders (pet_id) select n from generate_series(1, 50) as n`,
      `insert into idempotency_keys (api_key_id, key, body_hash, pet_id) values (1, 'kept', '', 1), (1, 'deleted', '', 100)`,
      `delete from pets where id = 100`,
    );
    const contents = () =>
      Promise.all(
        ['pets', 'orders', 'api_keys', `idempotency_keys where key = 'kept'`].map((table) =>
          ask(`select * from ${table} order by 1`),
        ),
      );
    const before = await contents();
    await revertToOrders(url);
    expect(await tables()).toEqual([]);
    expect(await contents()).toEqual(before);
    await expect(ask('delete from pets where id = 2')).rejects.toThrow('orders_pet_id_fkey');
    expect(await ask('select key from idempotency_keys')).toEqual([{ key: 'kept' }]);
    await runMigrations(url);
    expect(await tables()).toHaveLength(4);
    expect(await contents()).toEqual(before);
    const [{ id }] = await ask(
      `insert into pets (name, category_id) values ('next', 1) returning id`,
    );
    expect(Number(id)).toBeGreaterThan(100);
    while ((await revertMigration(url)) !== undefined);
    await runMigrations(url);
    expect(await tables()).toHaveLength(4);
  });

  it('take the locks that they declare for Citus', async () => {
    const migration = new DistributeTables1795226400000();
    const client = new Client({ connectionString: url });
    await client.connect();
    for (const way of ['down', 'up'] as const) {
      await client.query('begin');
      const { rows } = await client.query(
        `select oid, relname from pg_class where relname = any ($1)`,
        [Object.keys(migration.locksOnCitus[way])],
      );
      await migration[way](client);
      const { rows: taken } = await client.query(
        `select relation from pg_locks where pid = pg_backend_pid() and mode = 'AccessExclusiveLock'`,
      );
      const locked = new Set(taken.map(({ relation }) => relation));
      expect(Object.values(migration.locksOnCitus[way])).toEqual(
        rows.map(() => 'ACCESS EXCLUSIVE'),
      );
      expect(rows.filter(({ oid }) => !locked.has(oid))).toEqual([]);
      await client.query('commit');
    }
    await client.end();
  });

  it('may have been applied before the extension was created: the service works, and a revert allows to distribute', async () => {
    await revertToOrders(url);
    await ask(
      `insert into migrations (timestamp, name) values (1795226400000, 'DistributeTables1795226400000')`,
    );
    expect(await tables()).toEqual([]);
    const undistributed = await startService({}, url);
    const createHere = () =>
      undistributed.api
        .post('/v1/pets')
        .set('Idempotency-Key', 'a')
        .send({ name: 'Rex', categoryId: 1 });
    const { text, headers } = await createHere().expect(201);
    expect((await createHere().expect(201)).text).toBe(text);
    expect((await undistributed.api.get(headers['location']!).expect(200)).text).toBe(text);
    const { body } = await undistributed.api.post('/v1/pets').send({ name: 'Max', categoryId: 2 });
    expect((await undistributed.api.get('/v1/pets').expect(200)).text).toBe(
      `[${text},${JSON.stringify(body)}]`,
    );
    await undistributed.stop();
    await revertToOrders(url);
    await runMigrations(url);
    expect(await tables()).toHaveLength(4);
    expect(await ask('select name from pets order by id')).toEqual([
      { name: 'Rex' },
      { name: 'Max' },
    ]);
  });
});

describeOnCitus('on Citus', () => {
  let service: TestService;
  let other: TestService;
  beforeAll(async () => {
    const url = await createMigratedDatabase(CITUS_URL);
    [service, other] = await Promise.all([startService({}, url), startService({}, url)]);
  });
  afterAll(async () => {
    const { databaseUrl } = service;
    await Promise.all([service.stop(), other.stop()]);
    await dropDatabase(databaseUrl);
  });
  beforeEach(() => service.query('truncate pets, orders, idempotency_keys'));

  const create = (key: string, { anonymous } = service, name = 'Rex') =>
    anonymous
      .post('/v1/pets')
      .set('Authorization', `Bearer ${service.key}`)
      .set('Idempotency-Key', key)
      .send({ name, categoryId: 1 });

  const count = async (table: string) =>
    Number((await service.query(`select count(*) from ${table}`))[0].count);

  it('plans statements for their values', async () => {
    expect(await service.query('show plan_cache_mode')).toEqual([{ plan_cache_mode: 'auto' }]);
    expect(await service.query('show enable_seqscan')).toEqual([{ enable_seqscan: 'off' }]);
  });

  it('createPet creates one animal for each of hundreds of Idempotency-Keys that two processes get at once', async () => {
    const keys = Array.from({ length: 200 }, (_, n) => `key-${n}`);
    const answers = await Promise.all(
      keys.flatMap((key) => [service, other].map((one) => create(key, one, key))),
    );
    for (const answer of answers) {
      if (answer.status !== 201) {
        expectError(answer, 409, 'idempotency_key_in_use');
      }
    }
    const again = await Promise.all(keys.map((key) => create(key, service, key)));
    expect(again.map(({ status }) => status)).toEqual(keys.map(() => 201));
    expect(new Set(again.map(({ body }) => body.id)).size).toBe(200);
    expect(again.map(({ body }) => body.name)).toEqual(keys);
    expect([await count('pets'), await count('idempotency_keys')]).toEqual([200, 200]);
  });
});
