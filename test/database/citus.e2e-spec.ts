import { Client } from 'pg';
import { administerKeys } from '../../src/auth/api-keys.js';
import { readEnvironment } from '../../src/config/environment.js';
import { connectService } from '../../src/cli/serving-database.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { createLogger } from '../../src/logging/logger.js';
import { IdempotentCreation } from '../../src/pets/idempotent-creation.js';
import { expectError, walk } from '../support/answers.js';
import { query } from '../support/ask.js';
import { CITUS_URL } from '../support/citus.js';
import { revertToOrders } from '../support/revert-to-orders.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';

if (CITUS_URL === undefined) {
  console.warn('Citus is not tested: TEST_CITUS_URL names no coordinator.');
}

const MIN = '-9223372036854775808';
const MAX = '9223372036854775807';

// Citus is not part of PostgreSQL, and CI has none: there, citus-forms.spec.ts tests its statements on PostgreSQL.
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

  it('distribute the tables, so that orders are with pets of the same ids', async () => {
    expect(await tables()).toEqual([
      { name: 'api_keys', type: 'reference', column: '<none>' },
      { name: 'idempotency_keys', type: 'distributed', column: 'key' },
      { name: 'orders', type: 'distributed', column: 'id' },
      { name: 'pets', type: 'distributed', column: 'id' },
    ]);
  });

  it('revert, and distribute again, with all rows and the next ids', async () => {
    await ask(
      `insert into api_keys (name, hash) values ('key', sha256('key'))`,
      `insert into pets (name, category_id) select 'pet ' || n, n from generate_series(1, 100) as n`,
      `insert into pets (id, name, category_id) values (${MIN}, 'min', ${MIN}), (${MAX}, 'max', ${MAX})`,
      `insert into orders (pet_id) select n from generate_series(1, 50) as n`,
      `insert into idempotency_keys (api_key_id, key, body_hash, pet_id) values (1, 'kept', '', 1), (1, 'deleted', '', 100)`,
      `delete from pets where id = 100`,
    );
    const contents = async () =>
      Promise.all(
        ['pets', 'orders', 'api_keys', `idempotency_keys where key = 'kept'`].map((table) =>
          ask(`select * from ${table} order by 1`.replace(/ where (.*) order/, ' where $1 order')),
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

  it('revert to the first one, and lead up again', async () => {
    while ((await revertMigration(url)) !== undefined);
    expect(await tables()).toEqual([]);
    await runMigrations(url);
    expect(await tables()).toHaveLength(4);
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

  it('does not start with standbys, and says why', async () => {
    const { databaseUrl } = service;
    const variables = { DATABASE_URL: databaseUrl, DATABASE_READ_URL: databaseUrl };
    await expect(connectService(databaseUrl, readEnvironment(variables))).rejects.toThrow(
      /extension citus, so DATABASE_READ_URL must not be set/,
    );
  });

  it('is ready', async () => {
    await service.api.get('/health/ready').expect(200, { status: 'ready' });
  });

  it('manages keys, which each node has', async () => {
    await administerKeys(service.databaseUrl, async (keys) => {
      const { id, key } = await keys.issue('citus', 3_600_000);
      const status = async () =>
        (await service.anonymous.get('/v1/pets').set('Authorization', `Bearer ${key}`)).status;
      expect(await status()).toBe(200);
      await keys.limit(id, 1_000_000);
      expect((await keys.find(id))!.expiresAt!.getTime()).toBeLessThan(Date.now() + 3_000_000);
      expect((await keys.list()).map((one) => one.id)).toContain(id);
      expect(await keys.revoke(id)).toBe(true);
      expect(await keys.revoke(id)).toBe(false);
      expect(await keys.admit(key, 'again')).toBe(false);
    });
  });

  it('responds to createPet with the text that a get and a list have', async () => {
    for (const name of [
      '"\\\'\\u0041\n\r\t\b\f\u0001\u001f\u007f\u0080',
      '\u2028\u2029\u202e\ufffd\uffff\u{10ffff}👩‍👩‍👧‍👦</script>',
    ]) {
      for (const key of ['', `key-${name.length}`]) {
        const answer = await service.api
          .post('/v1/pets')
          .set(key === '' ? {} : { 'Idempotency-Key': key })
          .set('Content-Type', 'application/json')
          .send(`{"name":${JSON.stringify(name)},"categoryId":${MIN}}`)
          .expect(201);
        expect(JSON.parse(answer.text)).toMatchObject({ name, status: 'available' });
        expect(answer.text).toContain(`"categoryId":${MIN}`);
        expect((await service.api.get(answer.headers['location']!)).text).toBe(answer.text);
        expect((await service.api.get('/v1/pets?limit=100')).text).toContain(answer.text);
      }
    }
  });

  it('turns pages of orders and animals over all shards, by id', async () => {
    await service.query(
      `insert into pets (id, name, category_id, status)
       select n, 'pet', n, case when n % 2 = 0 then 'sold' else 'pending' end from generate_series(-50, 49) as n`,
    );
    await service.query(
      `insert into orders (id, pet_id) overriding system value values (${MIN}, 1), (${MAX}, 1)`,
    );
    await service.query('insert into orders (pet_id) select 1 from generate_series(1, 30)');
    const ids = async (path: string) =>
      (await walk(service, path)).flatMap(({ text }) =>
        [...text.matchAll(/"id":(-?\d+)/g)].map(([, id]) => BigInt(id!)),
      );
    const sorted = (all: bigint[]) => all.toSorted((a, b) => Number(a - b));
    const sold = await ids('/v1/pets?limit=3&status=sold');
    expect(sold).toEqual(sorted(sold));
    expect(sold).toHaveLength(50);
    const orders = await ids('/v1/store/orders?limit=7');
    expect(orders).toEqual(sorted(orders));
    expect(orders).toHaveLength(32);
  });

  it('stores the valid ones of a batch once each if the database refuses others', async () => {
    await service.query(
      `alter table pets add constraint refused check (name <> 'refused') not valid`,
    );
    try {
      const statuses = await Promise.all(
        Array.from({ length: 40 }, async (_, n) => {
          const answer = await service.api
            .post('/v1/pets')
            .send({ name: n % 10 === 0 ? 'refused' : 'Rex', categoryId: n });
          return answer.status;
        }),
      );
      expect(statuses.filter((status) => status === 201)).toHaveLength(36);
      expect(await count('pets')).toBe(36);
    } finally {
      await service.query('alter table pets drop constraint refused');
    }
  });

  describe('createPet with an Idempotency-Key', () => {
    it('creates one animal for each of hundreds of keys that two processes get at once', async () => {
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

    it('refuses another body, and creates a new animal after 24 hours', async () => {
      const age = (interval: string) =>
        service.query(`update idempotency_keys set created_at = now() - interval '${interval}'`);
      const first = await create('a').expect(201);
      expectError(await create('a', other, 'Max'), 422, 'idempotency_key_reused');
      await age('23 hours 59 minutes');
      expect((await create('a', other).expect(201)).text).toBe(first.text);
      await age('24 hours 1 minute');
      const second = await create('a', other, 'Max').expect(201);
      expect(second.headers).not.toHaveProperty('idempotent-replayed');
      expect((await create('a', service, 'Max')).text).toBe(second.text);
      expect([await count('pets'), await count('idempotency_keys')]).toEqual([2, 1]);
    });

    it('stores neither the key nor the animal if the database refuses one', async () => {
      await service.query(
        `alter table pets add constraint refused check (name <> 'refused') not valid`,
      );
      expect((await create('half', service, 'refused')).status).toBe(500);
      await service.query('alter table pets drop constraint refused');
      expect([await count('pets'), await count('idempotency_keys')]).toEqual([0, 0]);
      await create('half').expect(201);
    });

    it('creates a new animal after the first was deleted', async () => {
      const first = await create('gone').expect(201);
      await service.query('delete from pets');
      const second = await create('gone').expect(201);
      expect(second.body.id).not.toBe(first.body.id);
      expect(second.headers).not.toHaveProperty('idempotent-replayed');
      expect((await create('gone', other).expect(201)).text).toBe(second.text);
      expect(await count('pets')).toBe(1);
    });

    it('keeps the record of an animal whose worker has not finished the commit', async () => {
      const { text, body } = await create('doubt').expect(201);
      // As after a crash of the worker between the two phases: the transaction is prepared there, and not committed.
      const [{ shard, host, port }] = await service.query(
        `select shard_name(shardid_relation, shardid) as shard, nodename as host, nodeport as port
           from (select 'pets'::regclass as shardid_relation, get_shard_id_for_distribution_column('pets', $1::bigint) as shardid) as one
           join pg_dist_placement using (shardid) join pg_dist_node using (groupid)`,
        [body.id],
      );
      const worker = new Client({
        connectionString: Object.assign(new URL(service.databaseUrl), {
          hostname: host,
          port: String(port),
        }).href,
      });
      await worker.connect();
      try {
        await worker.query(`set citus.enable_manual_changes_to_shards = on`);
        await worker.query(`delete from ${shard} where id = ${body.id}`);
        await worker.query(
          `begin; insert into ${shard} (id, name, category_id, status) values (${body.id}, 'Rex', 1, 'available')`,
        );
        await worker.query(`prepare transaction 'doubt'`);
        expectError(await create('doubt'), 503, 'unavailable');
        expect(await count('idempotency_keys')).toBe(1);
        await worker.query(`commit prepared 'doubt'`);
      } finally {
        await worker.query(`rollback prepared 'doubt'`).catch(() => {});
        await worker.end();
      }
      expect((await create('doubt').expect(201)).text).toBe(text);
      expect(await count('pets')).toBe(1);
    });

    it('deletes records that are older than 24 hours, and no others', async () => {
      await create('young').expect(201);
      await service.query(
        `insert into idempotency_keys (api_key_id, key, body_hash, pet_id, created_at)
         select 1, n, '', n, now() - interval '25 hours' from generate_series(1, 2500) as n`,
      );
      await new IdempotentCreation(service.pool, createLogger('silent'))['sweep']();
      expect(await service.query('select key from idempotency_keys')).toEqual([{ key: 'young' }]);
    });
  });
});
