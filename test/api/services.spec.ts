import { ApiError } from '../../src/errors/api-error.js';
import { PageReader } from '../../src/listing/page-reader.js';
import { createLogger } from '../../src/logging/logger.js';
import { OrdersService } from '../../src/orders/orders.service.js';
import { IdempotentCreation } from '../../src/pets/idempotent-creation.js';
import { type CreatedPet, PetStore, type StoredPet } from '../../src/pets/pet-store.js';
import { PetsService } from '../../src/pets/pets.service.js';

const REX = { name: 'Rex', categoryId: 1n, status: 'available' } as const;

/** A store in memory. What a test does not expect fails. */
class FakeStore extends PetStore {
  readonly batches: number[] = [];
  override insert = async (pets: readonly object[]): Promise<(StoredPet | undefined)[]> => {
    this.batches.push(pets.length);
    return pets.map((_pet, i) => ({ id: `${i}`, json: `{"id":${i}}` }));
  };
  override insertOnce = async (): Promise<(CreatedPet | undefined)[]> => {
    throw new Error('not expected');
  };
  override find = async (ids: readonly bigint[]): Promise<(StoredPet | undefined)[]> =>
    ids.map((id) => (id === 1n ? { id: '1', json: '{"id":1}' } : undefined));
  override deleteOldKeys = async (): Promise<number> => 0;
}

class FakeReader extends PageReader {
  readonly reads: unknown[] = [];
  override of: PageReader['of'] = (list, filters) => async (pages) => {
    this.reads.push([list.table, filters.map(({ name }) => name), pages]);
    return pages.map(({ size }) => Array.from({ length: size }, (_, i) => `{"id":${i}}`));
  };
}

describe('PetsService', () => {
  it('stores the pets of requests that wait together, and gives each its own', async () => {
    const store = new FakeStore();
    const service = new PetsService(store, new FakeReader());
    const stored = await Promise.all([1, 2, 3].map(() => service.create(REX)));
    expect(stored.map(({ id }) => id)).toEqual(['0', '1', '2']);
    expect(store.batches).toEqual([3]);
  });

  it('finds a pet, and no other', async () => {
    const service = new PetsService(new FakeStore(), new FakeReader());
    expect(await service.get(1n)).toEqual({ id: '1', json: '{"id":1}' });
    for (const id of [2n, undefined]) {
      await expect(service.get(id)).rejects.toMatchObject({ code: 'pet_not_found' });
    }
  });

  it('reads a page once for all who want it, and the next one only if more follow', async () => {
    const reader = new FakeReader();
    const service = new PetsService(new FakeStore(), reader);
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
  const reader = new FakeReader();
  await new OrdersService(reader).list({ limit: 1, cursor: 7n });
  expect(reader.reads).toEqual([['orders', [], [{ start: 8n, size: 2, values: [] }]]]);
});

describe('IdempotentCreation', () => {
  const creationOn = (outcome: CreatedPet | undefined) => {
    const store = Object.assign(new FakeStore(), { insertOnce: async () => [outcome] });
    return new IdempotentCreation(store, createLogger('silent'));
  };

  it('gives twins the same pet, which is replayed to the second', async () => {
    const created = { id: '1', json: '{}', bodyHash: '', isReplayed: false };
    const bodies: string[] = [];
    const store = Object.assign(new FakeStore(), {
      insertOnce: async ([{ bodyHash }]: any) => [{ ...created, bodyHash: (bodies[0] = bodyHash) }],
    });
    const creation = new IdempotentCreation(store, createLogger('silent'));
    const twins = [creation.create('1', 'k', REX), creation.create('1', 'k', REX)];
    expect((await Promise.all(twins)).map(({ isReplayed }) => isReplayed)).toEqual([false, true]);
  });

  it.each([
    [undefined, 'idempotency_key_in_use'],
    [{ id: '1', json: '{}', bodyHash: 'another', isReplayed: true }, 'idempotency_key_reused'],
  ])('rejects a key with the outcome %j', async (outcome, code) => {
    const rejected = creationOn(outcome).create('1', 'k', REX);
    await expect(rejected).rejects.toThrow(ApiError);
    await expect(rejected).rejects.toMatchObject({ code });
  });
});
