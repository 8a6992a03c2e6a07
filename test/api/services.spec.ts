import type { PageReader } from '../../src/listing/page-reader.js';
import { createLogger } from '../../src/logging/logger.js';
import { OrdersService } from '../../src/orders/orders.service.js';
import { IdempotentCreation } from '../../src/pets/idempotent-creation.js';
import type { PetStore } from '../../src/pets/pet-store.js';
import { PetsService } from '../../src/pets/pets.service.js';

const REX = { name: 'Rex', categoryId: 1n, status: 'available' } as const;

/** A store that has these methods. Another one that is called fails the test. */
const storeWith = (methods: Partial<PetStore>) => methods as PetStore;

/** A reader of lists that have as many items as are wanted. */
function fakeReader() {
  const reads: unknown[] = [];
  const of: PageReader['of'] = (list, filters) => async (pages) => {
    reads.push([list.table, filters.map(({ name }) => name), pages]);
    return pages.map(({ size }) => Array.from({ length: size }, (_, i) => `{"id":${i}}`));
  };
  return { reads, of };
}

describe('PetsService', () => {
  it('stores the pets of requests that wait together, and gives each its own', async () => {
    const batches: number[] = [];
    const insert: PetStore['insert'] = async (pets) => {
      batches.push(pets.length);
      return pets.map((_pet, i) => ({ id: `${i}`, json: '{}' }));
    };
    const service = new PetsService(storeWith({ insert }), fakeReader());
    const stored = await Promise.all([1, 2, 3].map(() => service.create(REX)));
    expect(stored.map(({ id }) => id)).toEqual(['0', '1', '2']);
    expect(batches).toEqual([3]);
  });

  it('finds a pet, and no other', async () => {
    const rex = { id: '1', json: '{"id":1}' };
    const find: PetStore['find'] = async (ids) => ids.map((id) => (id === 1n ? rex : undefined));
    const service = new PetsService(storeWith({ find }), fakeReader());
    expect(await service.get(1n)).toBe(rex);
    for (const id of [2n, undefined]) {
      await expect(service.get(id)).rejects.toMatchObject({ code: 'pet_not_found' });
    }
  });

  it('reads a page once for all who want it, and the next one only if more follow', async () => {
    const reader = fakeReader();
    const service = new PetsService(storeWith({}), reader);
    const [page, same] = await Promise.all([
      service.list({ limit: 2, status: 'sold' }),
      service.list({ limit: 2, status: 'sold' }),
    ]);
    expect(same).toBe(page);
    expect(page).toEqual({ json: '[{"id":0},{"id":1}]', next: expect.any(String) });
    expect(reader.reads).toEqual([
      ['pets', ['status'], [{ start: expect.any(BigInt), size: 3, values: ['sold'] }]],
    ]);
  });
});

it('OrdersService reads orders', async () => {
  const reader = fakeReader();
  await new OrdersService(reader).list({ limit: 1, cursor: 7n });
  expect(reader.reads).toEqual([['orders', [], [{ start: 8n, size: 2, values: [] }]]]);
});

describe('IdempotentCreation', () => {
  const creationWith = (insertOnce: PetStore['insertOnce']) =>
    new IdempotentCreation(storeWith({ insertOnce }), createLogger('silent'));

  it('gives twins the same pet, which is replayed to the second', async () => {
    const creation = creationWith(async ([first]) => [
      { id: '1', json: '{}', bodyHash: first!.bodyHash, isReplayed: false },
    ]);
    const twins = [creation.create('1', 'k', REX), creation.create('1', 'k', REX)];
    expect((await Promise.all(twins)).map(({ isReplayed }) => isReplayed)).toEqual([false, true]);
  });

  it.each([
    [undefined, 'idempotency_key_in_use'],
    [{ id: '1', json: '{}', bodyHash: 'another', isReplayed: true }, 'idempotency_key_reused'],
  ])('rejects a key with the outcome %j', async (outcome, code) => {
    const rejected = creationWith(async () => [outcome]).create('1', 'k', REX);
    await expect(rejected).rejects.toMatchObject({ code });
  });
});
