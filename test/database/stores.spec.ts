import type { Engine } from '../../src/database/engine.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import { ORDERS } from '../../src/orders/orders.service.js';
import { Order } from '../../src/orders/order.entity.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import { Pet } from '../../src/pets/pet.entity.js';
import { PETS } from '../../src/pets/pets.service.js';
import { createLocalDatabase, createMigratedDatabase, dropDatabase } from '../support/database.js';
import { until } from '../support/until.js';
import { type Stores, storesOn } from '../support/stores.js';

const REX: NewPet = { name: 'Rex "the" cat', categoryId: INT64_MIN, status: 'sold' };
const MAX: NewPet = { name: 'Max', categoryId: 2n, status: 'pending' };
const BY_STATUS = PETS.filters.filter((filter) => filter.property === 'status');

// The statements for Citus also run on PostgreSQL alone. `npm run test:citus` runs both on a cluster.
describe.each<Engine>(['postgresql', 'citus'])('the stores for %s', (engine) => {
  let url: string;
  let stores: Stores;
  beforeAll(async () => {
    url = await (engine === 'citus' ? createMigratedDatabase : createLocalDatabase)();
    stores = await storesOn(url, engine);
    await run(`insert into api_keys (name, hash) values ('test', sha256('test'))`);
  });
  beforeEach(() => run('truncate pets, orders, idempotency_keys'));
  afterAll(async () => {
    await stores.dataSource.destroy();
    await dropDatabase(url);
  });

  const run = (sql: string, values?: unknown[]) => stores.pool.query(sql, values);
  const idsOf = (pets: readonly ({ id: string } | undefined)[]) => pets.map((pet) => pet?.id);

  /** The row, with each property of the entity that is not null. */
  const stored = async (entity: typeof Pet | typeof Order, id: string) => {
    const row = await stores.dataSource.getRepository(entity).findOneByOrFail({ id });
    return withIntegersAsText(JSON.stringify(row, (_name, value) => value ?? undefined));
  };

  const once = (keys: string[], pets: NewPet[]) =>
    stores.store.insertOnce(
      keys.map((key, n) => ({ apiKeyId: '1', key, bodyHash: `0${n}`.repeat(32), pet: pets[n]! })),
    );

  // Skipped for PostgreSQL's class: one statement stores all or nothing there, and a foreign key binds a record to its pet.
  const itOfCitus = engine === 'citus' ? it : it.skip;

  it('read each column of the entities, and no other', async () => {
    const [pet] = await stores.store.insert([REX]);
    const order = `insert into orders (pet_id, placed_at) values ($1, '2026-11-21T09:30Z') returning id`;
    const { rows } = await run(order, [pet!.id]);
    const found = [(await stores.store.find([BigInt(pet!.id)]))[0]!.json];
    for (const filters of PETS.filterSets) {
      const values = filters.map(({ property }) => REX[property as keyof NewPet]);
      const pages = await stores.read(PETS, filters, [{ start: INT64_MIN, size: 1, values }]);
      found.push(pages[0]![0]!);
    }
    const expected = await stored(Pet, pet!.id);
    expect(found.map(withIntegersAsText)).toEqual(found.map(() => expected));
    const first = { start: INT64_MIN, size: 1, values: [] };
    const [[json]] = (await stores.read(ORDERS, [], [first])) as [[string]];
    expect(withIntegersAsText(json)).toEqual(await stored(Order, rows[0].id));
  });

  it('read pages in the order in which they are wanted, each of its size and filters, by id', async () => {
    const statuses = ['sold', 'available', 'sold', 'pending', 'sold'] as const;
    const pets = await stores.store.insert(statuses.map((status) => ({ ...REX, status })));
    const ids = pets.map((pet) => pet!.id);
    const from = (nth: number, size: number, ...values: string[]) => {
      const start = nth === 0 ? INT64_MIN : BigInt(ids[nth - 1] ?? Number(ids[4]) + 1);
      return { start, size, values };
    };
    /** Which pets are on each page: the first is 1. */
    const found = (pages: string[][]) =>
      pages.map((items) => items.map((item) => ids.indexOf(`${JSON.parse(item).id}`) + 1));
    const all = stores.read(PETS, [], [from(4, 9), from(0, 2), from(6, 1), from(2, 2)]);
    expect(found(await all)).toEqual([[4, 5], [1, 2], [], [2, 3]]);
    const wanted = [from(2, 9, 'sold'), from(1, 1, 'pending'), from(3, 9, 'available')];
    expect(found(await stores.read(PETS, BY_STATUS, wanted))).toEqual([[3, 5], [4], []]);
    const [last, first] = [BigInt(ids[4]!), BigInt(ids[0]!)];
    expect(idsOf(await stores.store.find([last, 7n, first]))).toEqual(
      [last, undefined, first].map((id) => id && `${id}`),
    );
  });

  it.each<[string, NewPet]>([
    ['a pet', REX],
    ['extremes', { ...MAX, name: 'a\n"\\\u2028\u0001\u007f👩‍👩‍👧', categoryId: INT64_MAX }],
  ])('store and return each field of %s, with a key and without', async (key, pet) => {
    const [inserted] = await stores.store.insert([pet]);
    const [created] = await once([key], [pet]);
    for (const { id, json } of [inserted!, created!]) {
      const expected = { ...pet, id, categoryId: `${pet.categoryId}` };
      expect(withIntegersAsText(json)).toEqual(expected);
      expect(await stored(Pet, id)).toEqual(expected);
    }
  });

  it('return the pet of a key from then on, and another one after 24 hours', async () => {
    const create = () => once(['a', 'b'], [REX, MAX]);
    const age = (interval: string) =>
      run(`update idempotency_keys set created_at = now() - interval '${interval}'`);
    const first = await create();
    expect(first.map((one) => [JSON.parse(one!.json).name, one!.isReplayed])).toEqual([
      [REX.name, false],
      [MAX.name, false],
    ]);
    await age('23 hours 59 minutes');
    expect(await create()).toEqual(first.map((one) => ({ ...one, isReplayed: true })));
    // Whether the body is another one is decided by what was recorded.
    const swapped = await once(['b', 'a'], [MAX, REX]);
    expect(swapped.map((one) => one!.bodyHash)).toEqual([first[1]!.bodyHash, first[0]!.bodyHash]);
    expect(first[0]!.bodyHash).not.toBe(first[1]!.bodyHash);
    expect(await stores.store.deleteOldKeys()).toBe(0);
    await age('24 hours 1 minute');
    const renew = () => once(['b', 'a'], [REX, MAX]);
    const second = await renew();
    expect(second.map((one) => one!.isReplayed)).toEqual([false, false]);
    expect(idsOf(second).filter((id) => idsOf(first).includes(id))).toEqual([]);
    expect(await renew()).toEqual(second.map((one) => ({ ...one, isReplayed: true })));
    await age('24 hours 1 minute');
    expect(await stores.store.deleteOldKeys()).toBe(2);
  });

  it('delete at most 1,000 old records in a transaction', async () => {
    const [pet] = await stores.store.insert([REX]);
    await run(
      `insert into idempotency_keys (api_key_id, key, body_hash, pet_id, created_at)
       select 1, n, '', $1, now() - interval '25 hours' from generate_series(1, 1001) as n`,
      [pet!.id],
    );
    expect(await stores.store.deleteOldKeys()).toBe(1_000);
    expect(await stores.store.deleteOldKeys()).toBe(1);
  });

  it('keep an old record that another session is about to renew', async () => {
    await once(['renewed'], [REX]);
    await run(`update idempotency_keys set created_at = now() - interval '25 hours'`);
    const holder = await stores.pool.connect();
    await holder.query('begin; update idempotency_keys set created_at = now()');
    const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    const deletion = stores.store.deleteOldKeys();
    // PostgreSQL's skips the record. That of Citus waits.
    await Promise.race([
      deletion,
      until('it waits', () => run(waits), { holds: ({ rowCount }) => rowCount === 1 }),
    ]);
    await holder.query('commit');
    holder.release();
    expect(await deletion).toBe(0);
    expect((await run('select from idempotency_keys')).rowCount).toBe(1);
  });

  itOfCitus(
    'creates nothing with a key whose record is locked for longer than it waits',
    async () => {
      const holder = await stores.pool.connect();
      try {
        await holder.query(
          `begin; insert into pets (id, name, category_id) values (7, 'Rex', 1);
         insert into idempotency_keys (api_key_id, key, body_hash, pet_id) values (1, 'stuck', '', 7)`,
        );
        const created = await once(['stuck', 'other'], [REX, REX]);
        expect(created.map((one) => one?.isReplayed)).toEqual([undefined, false]);
      } finally {
        await holder.query('rollback');
        holder.release();
      }
      expect((await run('select from pets')).rowCount).toBe(1);
      expect((await once(['stuck'], [REX]))[0]?.isReplayed).toBe(false);
    },
  );

  it('leave a session with the settings that it had before, such as how long it waits for a lock', async () => {
    const { dataSource, pool, store } = await storesOn(url, engine, 2);
    const sql = `select name, setting from pg_settings where source = 'session' order by name`;
    const before = (await pool.query(sql)).rows;
    await store.insert([REX]);
    await store.insertOnce([{ apiKeyId: '1', key: 'a', bodyHash: '00'.repeat(32), pet: REX }]);
    await store.deleteOldKeys();
    const after = (await pool.query(sql)).rows;
    await dataSource.destroy();
    expect(after).toEqual(before);
  });

  it('create nothing with a key that another session is about to record', async () => {
    const holder = await stores.pool.connect();
    try {
      await holder.query(
        `begin; select pg_advisory_xact_lock(hashint8(1), hashtext(key)) from unnest('{h-0,h-2}'::text[]) as key`,
      );
      const created = await once(['h-0', 'free', 'h-2'], [REX, REX, REX]);
      expect(created.map((one) => one?.isReplayed)).toEqual([undefined, false, undefined]);
    } finally {
      await holder.query('rollback');
      holder.release();
    }
    expect((await run('select from pets')).rowCount).toBe(1);
  });

  itOfCitus('stores the others if the database rejects one', async () => {
    const keys = ['a', 'b', 'c'];
    const pets = [REX, REX, MAX];
    await run(`alter table pets add constraint no_max check (name <> 'Max') not valid`);
    await expect(once(keys, pets)).rejects.toMatchObject({ code: '23514' });
    await run('alter table pets drop constraint no_max');
    const created = await once(keys, pets);
    expect(created.map((one) => one!.isReplayed)).toEqual([true, true, false]);
  });

  itOfCitus('holds a key without its pet to be in use', async () => {
    // As on Citus, where a record may outlive its pet, or be committed before it.
    const foreignKey = 'idempotency_keys_pet_id_fkey';
    await run(`alter table idempotency_keys drop constraint if exists ${foreignKey}`);
    const [gone] = await once(['gone', 'kept'], [REX, REX]);
    await run('delete from pets where id = $1', [gone!.id]);
    const again = await once(['gone', 'kept'], [REX, REX]);
    expect(again.map((one) => one?.isReplayed)).toEqual([undefined, true]);
  });
});

/** As an entity has them: an int64 as text, and an instant to the millisecond. */
function withIntegersAsText(json: string): object {
  return JSON.parse(
    json.replaceAll(/(?<="):(-?[0-9]+)/g, ':"$1"').replaceAll(/(\.\d{3})\d{3}Z"/g, '$1Z"'),
  );
}
