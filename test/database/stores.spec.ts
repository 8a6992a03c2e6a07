import type { Engine } from '../../src/database/engine.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import { ORDERS } from '../../src/orders/orders.service.js';
import { Order } from '../../src/orders/order.entity.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import { NEW_PET_COLUMNS } from '../../src/pets/pet-store.js';
import { Pet } from '../../src/pets/pet.entity.js';
import { PETS } from '../../src/pets/pets.service.js';
import { CITUS_URL } from '../support/citus.js';
import { createMigratedDatabase, dropDatabase } from '../support/database.js';
import { filterSets, type Stores, storesOn } from '../support/stores.js';

const OPTIONAL = NEW_PET_COLUMNS.filter(({ isOptional }) => isOptional);
/** Of each type that an optional column may have. */
const SAMPLES: Record<string, (n: number) => unknown> = {
  bigint: BigInt,
  integer: Number,
  boolean: (n) => n % 2 === 1,
  date: (n) => `2020-02-${10 + n}`,
  'timestamp with time zone': (n) => `2026-11-21T09:30:00.12345${n}Z`,
  jsonb: (n) => ['a,b', 'c', n],
  'character varying': (n) => `text ${n}`,
};

const FULL = fullPet(1, { name: 'Rex "the" cat', categoryId: INT64_MIN, status: 'sold' });
const { categoryId, name, status } = FULL;
const REQUIRED = { categoryId, name, status };
const BY_STATUS = PETS.filters.filter((filter) => filter.property === 'status');

const ENGINES: [title: string, engine: Engine, server?: string][] = [
  ['PostgreSQL', 'postgresql'],
  // Its statements also run on PostgreSQL alone.
  ['Citus', 'citus'],
];
if (CITUS_URL !== undefined) {
  ENGINES.push(['Citus, there', 'citus', CITUS_URL]);
}

describe.each(ENGINES)('the stores for %s', (_title, engine, server) => {
  let url: string;
  let stores: Stores;
  let others: Stores;
  beforeAll(async () => {
    url = await createMigratedDatabase(server);
    const other = engine === 'citus' && server === undefined ? 'postgresql' : 'citus';
    [stores, others] = await Promise.all([storesOn(url, engine), storesOn(url, other)]);
    await run(`insert into api_keys (name, hash) values ('test', sha256('test'))`);
  });
  beforeEach(() => run('truncate pets, orders, idempotency_keys'));
  afterAll(async () => {
    await Promise.all([stores, others].map(({ dataSource }) => dataSource.destroy()));
    await dropDatabase(url);
  });

  const run = (sql: string, values?: unknown[]) => stores.pool.query(sql, values);
  const idsOf = (pets: readonly ({ id: string } | undefined)[]) => pets.map((pet) => pet?.id);

  /** The row, with each property of the entity. */
  const stored = async (entity: typeof Pet | typeof Order, id: string) =>
    withIntegersAsText(
      JSON.stringify(await stores.dataSource.getRepository(entity).findOneByOrFail({ id })),
    );

  const once = ({ store }: Stores, keys: string[], pets: NewPet[]) =>
    store.insertOnce(
      keys.map((key, n) => ({ apiKeyId: '1', key, bodyHash: `0${n}`.repeat(32), pet: pets[n]! })),
    );

  it('read each column of the entities, and no other', async () => {
    const [pet] = await stores.store.insert([FULL]);
    const order = `insert into orders (pet_id, placed_at) values ($1, '2026-11-21T09:30Z') returning id`;
    const { rows } = await run(order, [pet!.id]);
    const found = [(await stores.store.find([BigInt(pet!.id)]))[0]!.json];
    for (const filters of filterSets(PETS)) {
      const values = filters.map(({ property }) => FULL[property as keyof NewPet]);
      const pages = await stores.reader.of(PETS, filters)([{ start: INT64_MIN, size: 1, values }]);
      found.push(pages[0]![0]!);
    }
    const expected = await stored(Pet, pet!.id);
    expect(found.map(withIntegersAsText)).toEqual(found.map(() => expected));
    const first = { start: INT64_MIN, size: 1, values: [] };
    const [[json]] = (await stores.reader.of(ORDERS, [])([first])) as [[string]];
    expect(withIntegersAsText(json)).toEqual(await stored(Order, rows[0].id));
  });

  it('read pages in the order in which they are wanted, each of its size and filters, by id', async () => {
    const statuses = ['sold', 'available', 'sold', 'pending', 'sold'] as const;
    const pets = await stores.store.insert(statuses.map((each, n) => fullPet(n, { status: each })));
    const ids = pets.map((pet) => pet!.id);
    const from = (nth: number, size: number, ...values: string[]) => {
      const start = nth === 0 ? INT64_MIN : BigInt(ids[nth - 1] ?? Number(ids[4]) + 1);
      return { start, size, values };
    };
    /** Which pets are on each page: the first is 1. */
    const found = (pages: string[][]) =>
      pages.map((items) => items.map((item) => ids.indexOf(`${JSON.parse(item).id}`) + 1));
    const all = stores.reader.of(PETS, [])([from(4, 9), from(0, 2), from(6, 1), from(2, 2)]);
    expect(found(await all)).toEqual([[4, 5], [1, 2], [], [2, 3]]);
    const wanted = [from(2, 9, 'sold'), from(1, 1, 'pending'), from(3, 9, 'available')];
    expect(found(await stores.reader.of(PETS, BY_STATUS)(wanted))).toEqual([[3, 5], [4], []]);
    const [last, first] = [BigInt(ids[4]!), BigInt(ids[0]!)];
    expect(idsOf(await stores.store.find([last, 7n, first, last]))).toEqual(
      [last, undefined, first, last].map((id) => id && `${id}`),
    );
  });

  it.each([
    ['a full pet', FULL],
    ['a pet without optional fields', REQUIRED],
    ['extremes', fullPet(2, { name: 'a\n"\\\u2028\u0001\u007f👩‍👩‍👧', categoryId: INT64_MAX })],
  ])('store and return each field of %s, with a key and without', async (key, pet) => {
    const [inserted] = await stores.store.insert([pet]);
    const [created] = await once(stores, [key], [pet]);
    const sent = JSON.stringify(pet, (_name, value) =>
      typeof value === 'bigint' ? `${value}` : value,
    );
    for (const { id, json } of [inserted!, created!]) {
      const expected = { id, ...withIntegersAsText(sent) };
      expect(withIntegersAsText(json)).toEqual(expected);
      const missing = Object.fromEntries(OPTIONAL.map(({ property }) => [property, null]));
      expect(await stored(Pet, id)).toEqual({ ...missing, ...expected });
    }
  });

  it('return the pet of a key from then on, on either engine, and another one after 24 hours', async () => {
    const keys = ['a', 'b', 'c'];
    const onceAgain = (on: Stores) => once(on, keys, [FULL, fullPet(2), REQUIRED]);
    const age = (interval: string) =>
      run(`update idempotency_keys set created_at = now() - interval '${interval}'`);
    const first = await onceAgain(stores);
    expect(first.map((one) => [JSON.parse(one!.json).name, one!.isReplayed])).toEqual(
      [FULL, fullPet(2), REQUIRED].map((pet) => [pet.name, false]),
    );
    await age('23 hours 59 minutes');
    for (const either of [stores, others]) {
      expect(await onceAgain(either)).toEqual(first.map((one) => ({ ...one, isReplayed: true })));
      expect(await either.store.deleteOldKeys()).toBe(0);
    }
    await age('24 hours 1 minute');
    const second = await onceAgain(stores);
    expect(second.map((one) => one!.isReplayed)).toEqual([false, false, false]);
    expect(idsOf(second)).not.toEqual(idsOf(first));
    await age('24 hours 1 minute');
    expect(await stores.store.deleteOldKeys()).toBe(3);
  });

  it('create nothing with a key that another session is about to record', async () => {
    const holder = await others.pool.connect();
    try {
      await holder.query(
        `begin; select pg_advisory_xact_lock(hashint8(1), hashtext(key)) from unnest('{h-0,h-2}'::text[]) as key`,
      );
      const created = await once(stores, ['h-0', 'free', 'h-2'], [FULL, FULL, FULL]);
      expect(created.map((one) => one?.isReplayed)).toEqual([undefined, false, undefined]);
    } finally {
      await holder.query('rollback');
      holder.release();
    }
    expect((await run('select from pets')).rowCount).toBe(1);
  });

  // Skipped for PostgreSQL's class: one statement stores all or nothing there, and a foreign key binds a record to its pet.
  const itOfCitus = engine === 'citus' ? it : it.skip;

  itOfCitus('stores the others if the database rejects one', async () => {
    const [keys, pets] = [
      ['a', 'b', 'c'],
      [FULL, FULL, { ...FULL, name: 'Rex' }],
    ];
    await run(`alter table pets add constraint no_rex check (name <> 'Rex') not valid`);
    await expect(once(stores, keys, pets)).rejects.toMatchObject({ code: '23514' });
    await run('alter table pets drop constraint no_rex');
    const created = await once(stores, keys, pets);
    expect(created.map((one) => one!.isReplayed)).toEqual([true, true, false]);
  });

  itOfCitus('holds a key without its pet to be in use', async () => {
    // As on Citus, where a record may outlive its pet, or be committed before it.
    const foreignKey = 'idempotency_keys_pet_id_fkey';
    await run(`alter table idempotency_keys drop constraint if exists ${foreignKey}`);
    const [gone] = await once(stores, ['gone', 'kept'], [FULL, FULL]);
    await run('delete from pets where id = $1', [gone!.id]);
    const again = await once(stores, ['gone', 'kept'], [FULL, FULL]);
    expect(again.map((one) => one?.isReplayed)).toEqual([undefined, true]);
  });
});

/** As an entity has them: an int64 as text, and an instant to the millisecond. */
function withIntegersAsText(json: string): object {
  return JSON.parse(
    json.replaceAll(/(?<="):(-?[0-9]+)/g, ':"$1"').replaceAll(/(\.\d{3})\d{3}Z"/g, '$1Z"'),
  );
}

/** A new pet with a value in every optional field. A statement that leaves one out then fails a test. */
function fullPet(n: number, fields: Partial<NewPet> = {}): NewPet {
  const optional = OPTIONAL.map(({ property, type }) => [property, SAMPLES[type]!(n)]);
  return {
    name: `Rex "${n}"`,
    categoryId: BigInt(n),
    status: 'pending',
    ...Object.fromEntries(optional),
    ...fields,
  };
}
