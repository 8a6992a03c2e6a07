import { type EntityTarget, type ObjectLiteral } from 'typeorm';
import { columnsOf } from '../../src/database/columns.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import { ORDERS } from '../../src/orders/orders.service.js';
import { Order } from '../../src/orders/order.entity.js';
import { contentOf } from '../../src/pets/idempotent-creation.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import { Pet } from '../../src/pets/pet.entity.js';
import { PETS } from '../../src/pets/pets.service.js';
import { NEW_PET_COLUMNS } from '../../src/pets/postgres-pet-store.js';
import { fullPet } from '../support/full-pet.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';
import { type Stores, storesOn } from '../support/stores.js';

const FULL = fullPet(1, { name: 'Rex "the" cat', categoryId: INT64_MIN, status: 'sold' });
const { categoryId, name, status } = FULL;
const OPTIONAL = columnsOf(Pet).filter(({ isOptional }) => isOptional);

/** Citus is not needed: its statements also run on PostgreSQL alone. test/database/citus.e2e-spec.ts runs them there. */
describe.each(['postgresql', 'citus'] as const)('the stores for %s', (engine) => {
  let url: string;
  let stores: Stores;
  let others: Stores;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    stores = await storesOn(url, engine);
    others = await storesOn(url, engine === 'citus' ? 'postgresql' : 'citus');
    await stores.pool.query(`insert into api_keys (name, hash) values ('test', sha256('test'))`);
  });
  beforeEach(() => stores.pool.query('truncate pets, orders, idempotency_keys restart identity'));
  afterAll(async () => {
    await Promise.all([stores, others].map(({ dataSource }) => dataSource.destroy()));
    await dropDatabase(url);
  });

  /** The first row, with each property of the entity. */
  const stored = async (entity: EntityTarget<ObjectLiteral>) => {
    const repository = stores.dataSource.getRepository(entity);
    const [found] = await repository.find({ order: { id: 'asc' }, take: 1 });
    return withIntegersAsText(JSON.stringify(found));
  };

  it('read each column of the entities, and no other', async () => {
    await stores.store.insert([FULL]);
    await stores.pool.query(
      `insert into orders (pet_id, placed_at) values (1, '2026-11-21T09:30Z')`,
    );
    const first = { start: INT64_MIN, size: 1 };
    const pages = [
      ...(await stores.reader.read(PETS, [], [{ ...first, values: [] }])),
      ...(await stores.reader.read(PETS, PETS.filters, [{ ...first, values: ['sold'] }])),
      [(await stores.store.find([1n]))[0]!.json],
    ];
    for (const [pet] of pages) {
      expect(withIntegersAsText(pet!)).toEqual(await stored(Pet));
    }
    const [[order]] = (await stores.reader.read(ORDERS, [], [{ ...first, values: [] }])) as [
      [string],
    ];
    expect(withIntegersAsText(order.replace('000Z"', 'Z"'))).toEqual(await stored(Order));
  });

  it('read pages in the order in which they are wanted, each of its size and filters, by id', async () => {
    const statuses = ['sold', 'available', 'sold', 'pending', 'sold'] as const;
    await stores.store.insert(statuses.map((each, n) => fullPet(n, { status: each })));
    const idsOf = (pages: string[][]) =>
      pages.map((items) => items.map((item) => JSON.parse(item).id));
    const wanted = (start: bigint, size: number, ...values: string[]) => ({ start, size, values });
    const all = [wanted(4n, 9), wanted(INT64_MIN, 2), wanted(6n, 1), wanted(2n, 2)];
    expect(idsOf(await stores.reader.read(PETS, [], all))).toEqual([[4, 5], [1, 2], [], [2, 3]]);
    const sold = [wanted(2n, 9, 'sold'), wanted(1n, 1, 'pending'), wanted(3n, 9, 'available')];
    expect(idsOf(await stores.reader.read(PETS, PETS.filters, sold))).toEqual([[3, 5], [4], []]);
    expect(await stores.store.find([5n, 9n, 1n, 5n])).toMatchObject(
      [{ id: '5' }, {}, { id: '1' }, { id: '5' }].map((one) => ('id' in one ? one : undefined)),
    );
  });

  const PETS_OF_TESTS: NewPet[] = [
    fullPet(1, { name: 'a\n"\\\u2028\u0001\u007f', categoryId: INT64_MIN, status: 'pending' }),
    fullPet(2, { name: '👩‍👩‍👧', categoryId: INT64_MAX, status: 'sold' }),
    { name: 'Rex', categoryId: 0n, status: 'available' },
  ];

  const once = ({ store }: Stores, keys: string[]) =>
    store.insertOnce(
      keys.map((key, n) => ({
        apiKeyId: '1',
        key,
        bodyHash: `0${n}`.repeat(32),
        pet: PETS_OF_TESTS[n]!,
      })),
    );

  it.each([
    ['a full pet', FULL],
    ['a pet without optional fields', { categoryId, name, status }],
  ])('store and return each field of %s, with a key and without', async (key, pet) => {
    const [inserted] = await stores.store.insert([pet]);
    const creation = { apiKeyId: '1', key, bodyHash: '00'.repeat(32), pet };
    const [created] = await stores.store.insertOnce([creation]);
    for (const { id, json } of [inserted!, created!]) {
      const sent = Object.entries(pet).map(([property, value]) => [
        property,
        typeof value === 'bigint' ? String(value) : value,
      ]);
      const expected = { id, ...Object.fromEntries(sent) };
      expect(withIntegersAsText(json)).toEqual(expected);
      const found = await stores.dataSource.getRepository(Pet).findOneByOrFail({ id });
      expect(withIntegersAsText(JSON.stringify(found))).toEqual({
        ...Object.fromEntries(OPTIONAL.map(({ property }) => [property, null])),
        ...expected,
      });
    }
  });

  it('return the pet of a key from then on, on either engine, and another one after 24 hours', async () => {
    const keys = ['a', 'b', 'c'];
    const age = (interval: string) =>
      stores.pool.query(`update idempotency_keys set created_at = now() - interval '${interval}'`);
    const first = await once(stores, keys);
    expect(first.map((one) => [JSON.parse(one!.json).name, one!.isReplayed])).toEqual(
      PETS_OF_TESTS.map((pet) => [pet.name, false]),
    );
    const replayed = first.map((one) => ({ ...one, isReplayed: true }));
    await age('23 hours 59 minutes');
    for (const either of [stores, others]) {
      expect(await once(either, keys)).toEqual(replayed);
      expect(await either.store.deleteOldKeys()).toBe(0);
    }
    await age('24 hours 1 minute');
    const second = await once(stores, keys);
    expect(second.map((one) => one!.isReplayed)).toEqual([false, false, false]);
    expect(second.map((one) => one!.id)).not.toEqual(first.map((one) => one!.id));
    await age('24 hours 1 minute');
    expect(await stores.store.deleteOldKeys()).toBe(3);
  });

  it('create nothing with a key that another session is about to record', async () => {
    const holder = await others.pool.connect();
    try {
      await holder.query(
        `begin; select pg_advisory_xact_lock(hashint8(1), hashtext(key)) from unnest('{h-0,h-2}'::text[]) as key`,
      );
      const created = await once(stores, ['h-0', 'free', 'h-2']);
      expect(created).toEqual([
        undefined,
        expect.objectContaining({ isReplayed: false }),
        undefined,
      ]);
    } finally {
      await holder.query('rollback');
      holder.release();
    }
    expect((await stores.pool.query('select from pets')).rowCount).toBe(1);
  });
});

describe('the store for Citus', () => {
  let url: string;
  let stores: Stores;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    stores = await storesOn(url, 'citus');
    await stores.pool.query(`insert into api_keys (name, hash) values ('test', sha256('test'))`);
  });
  afterAll(async () => {
    await stores.dataSource.destroy();
    await dropDatabase(url);
  });

  const once = (keys: string[], pet: NewPet) =>
    stores.store.insertOnce(
      keys.map((key) => ({
        apiKeyId: '1',
        key,
        bodyHash: '00'.repeat(32),
        pet: { ...pet, name: key },
      })),
    );

  it('stores the others if the database rejects one', async () => {
    await stores.pool.query(
      `alter table pets add constraint no_rex check (name <> 'Rex') not valid`,
    );
    await expect(once(['first', 'second', 'Rex'], FULL)).rejects.toMatchObject({ code: '23514' });
    await stores.pool.query('alter table pets drop constraint no_rex');
    const created = await once(['first', 'second', 'Rex'], FULL);
    expect(created.map((one) => one!.isReplayed)).toEqual([true, true, false]);
  });

  it('holds a key without its pet to be in use', async () => {
    // As on Citus, where a record may outlive its pet, or be committed before it.
    await stores.pool.query(
      'alter table idempotency_keys drop constraint idempotency_keys_pet_id_fkey',
    );
    const [gone] = await once(['gone', 'kept'], FULL);
    await stores.pool.query('delete from pets where id = $1', [gone!.id]);
    const again = await once(['gone', 'kept'], FULL);
    expect(again).toEqual([undefined, expect.objectContaining({ isReplayed: true })]);
  });
});

it('contentOf differs between pets that differ in a field', () => {
  const required = { categoryId, name, status };
  const different = [
    FULL,
    ...NEW_PET_COLUMNS.map(({ property }) => ({ ...FULL, [property]: 'other' })),
    ...NEW_PET_COLUMNS.map(({ property }) => ({ ...FULL, [property]: ['a,b'] })),
    ...NEW_PET_COLUMNS.map(({ property }) => ({ ...FULL, [property]: ['a', 'b'] })),
    ...OPTIONAL.map(({ property }) => ({ ...FULL, [property]: undefined })),
    ...OPTIONAL.map(({ property }) => ({ ...required, [property]: 'the same' })),
  ] as NewPet[];
  expect(new Set(different.map(contentOf)).size).toBe(different.length);
});

/** An entity has an int64 as text, and an instant to the millisecond. */
function withIntegersAsText(json: string): object {
  return JSON.parse(json.replaceAll(/(?<="):(-?[0-9]+)/g, ':"$1"'));
}
