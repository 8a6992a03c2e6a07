import { install } from '@sinonjs/fake-timers';
import { INT64_MIN } from '../../src/int64.js';
import { CitusPageReader } from '../../src/listing/citus-page-reader.js';
import type { PageReader } from '../../src/listing/page-reader.js';
import { PostgresPageReader } from '../../src/listing/postgres-page-reader.js';
import { CitusPetStore } from '../../src/pets/citus-pet-store.js';
import { IdempotentCreation } from '../../src/pets/idempotent-creation.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import type { PetStore } from '../../src/pets/pet-store.js';
import { PetsService } from '../../src/pets/pets.service.js';
import { PostgresPetStore } from '../../src/pets/postgres-pet-store.js';
import type { Standbys } from '../../src/standbys/standbys.js';
import { fakeSessions, LATER, poolWith } from '../support/sessions.js';
import { SILENT } from '../support/silent.js';

const REX = { name: 'Rex', categoryId: 1n, status: 'available' } as const;
const MAX = { ...REX, name: 'Max' };

/** A store that has these methods. Another one that is called fails the test. */
const storeWith = (methods: Partial<PetStore>) => ({ limits: {}, ...methods }) as PetStore;

const SESSIONS = fakeSessions();
const POOL = poolWith(SESSIONS);
const NO_STANDBYS = {} as Standbys;

const readerWith = (methods: Partial<PageReader>) =>
  ({ pool: POOL, of: () => undefined, ...methods }) as unknown as PageReader;

describe('PetsService', () => {
  it('stores the pets of requests that wait together, and gives each its own', async () => {
    const batches: number[] = [];
    const insert: PetStore['insert'] = async (pets) => {
      batches.push(pets.length);
      return pets.map((_pet, i) => ({ id: `${i}`, json: '{}' }));
    };
    const service = new PetsService(storeWith({ insert }), readerWith({}), POOL);
    const stored = await Promise.all([1, 2, 3].map(() => service.create(REX, LATER)));
    expect(stored.map(({ id }) => id)).toEqual(['0', '1', '2']);
    expect(batches).toEqual([3]);
  });

  it('reads each page once for all who want it, and gives each request its own', async () => {
    const reads: unknown[] = [];
    // Has as many items as are wanted. Each says on which page of the read it is.
    const of: PageReader['of'] = (list, filters) => async (pages) => {
      reads.push([list.table, filters.map(({ name }) => name), pages]);
      return pages.map(({ size }, page) => Array<string>(size).fill(`{"id":7,"page":${page}}`));
    };
    const service = new PetsService(storeWith({}), readerWith({ of }), POOL);
    const sold = { limit: 2, status: 'sold' } as const;
    const pending = { limit: 2, status: 'pending' } as const;
    const queries = [sold, { ...sold, cursor: 7n }, { ...sold, limit: 1 }, pending, sold];
    const pages = await Promise.all(queries.map((query) => service.list(query, LATER)));
    const shown = pages.map(({ json }) => JSON.parse(json).map(({ page }: any) => page));
    expect(shown).toEqual([[0, 0], [1, 1], [2], [3, 3], [0, 0]]);
    expect(pages[4]).toBe(pages[0]);
    const first = { start: INT64_MIN, size: 3, values: ['sold'] };
    const others = [{ start: 8n }, { size: 2 }, { values: ['pending'] }];
    const byStatus = [first, ...others.map((difference) => ({ ...first, ...difference }))];
    expect(reads).toEqual([['pets', ['status'], byStatus]]);
  });

  it.each([
    ['1,024 rows', PostgresPageReader, [10, 1]],
    ['256 rows on Citus', CitusPageReader, [2, 2, 2, 2, 2, 1]],
  ])('reads at most %s with a statement', async (_rows, Reader, expected) => {
    const sizes: number[] = [];
    const of: PageReader['of'] = () => async (pages) => {
      sizes.push(pages.length);
      return pages.map(() => []);
    };
    const { limits } = new Reader(POOL, NO_STANDBYS);
    const service = new PetsService(storeWith({}), readerWith({ of, limits }), POOL);
    const queries = Array.from({ length: 11 }, (_, i) => ({ limit: 100, cursor: BigInt(i) }));
    await Promise.all(queries.map((query) => service.list(query, LATER)));
    expect(sizes).toEqual(expected);
  });
});

describe('IdempotentCreation', () => {
  /** What creates pets with keys, and how many of them each statement has. */
  function creations(limits: PetStore['limits'] = {}) {
    const sizes: number[] = [];
    const insertOnce: PetStore['insertOnce'] = async (all) => {
      sizes.push(all.length);
      return all.map(({ bodyHash }) => ({ id: '1', json: '{}', bodyHash, isReplayed: false }));
    };
    const creation = new IdempotentCreation(storeWith({ insertOnce, limits }), POOL, SILENT);
    const create = (key: string, pet: NewPet, keyId = '1') =>
      creation.create(keyId, key, pet, LATER);
    return { sizes, create };
  }

  it('gives twins of an API key the same pet, replayed to the second, and rejects one with another body', async () => {
    const { create } = creations();
    const ofOther = create('key', REX, '2');
    const [first, second, other] = [REX, REX, MAX].map((pet) => create('key', pet));
    await expect(other).rejects.toMatchObject({ code: 'idempotency_key_reused' });
    const pet = await first!;
    expect([pet.isReplayed, await second]).toEqual([false, { ...pet, isReplayed: true }]);
    expect((await ofOther).isReplayed).toBe(false);
  });

  it.each([
    ['64 locks', PostgresPetStore, [64, 36]],
    ['one lock on Citus', CitusPetStore, Array(100).fill(1)],
  ])('takes at most %s with a statement', async (_locks, Store, expected) => {
    const { sizes, create } = creations(new Store(NO_STANDBYS).limits);
    await Promise.all(Array.from({ length: 100 }, (_, n) => create(`${n}`, REX)));
    expect(sizes).toEqual(expected);
  });

  it('says in the log why old keys could not be deleted', async () => {
    const warn = jest.fn();
    const deleteOldKeys = () => Promise.reject(new Error('a lock'));
    const logger = { ...SILENT, warn } as unknown as typeof SILENT;
    await new IdempotentCreation(storeWith({ deleteOldKeys }), POOL, logger).deleteOldKeys();
    const line = [{ reason: 'a lock' }, 'Old idempotency keys could not be deleted'];
    expect(warn.mock.calls).toEqual([line]);
  });

  it('deletes old keys once in ten minutes, in as many rounds as there are some, and no more when it stops', async () => {
    const clock = install({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const found = [1_000, 1_000, 0];
      const rounds: unknown[] = [];
      const deleteOldKeys = async () => {
        rounds.push(clock.now);
        return found.shift() ?? 0;
      };
      const creation = new IdempotentCreation(storeWith({ deleteOldKeys }), POOL, SILENT);
      creation.onModuleInit();
      const MINUTE = 60_000;
      await clock.tickAsync(10 * MINUTE - 1);
      expect(rounds).toEqual([]);
      await clock.tickAsync(10 * MINUTE);
      expect(rounds).toEqual(Array(3).fill(10 * MINUTE));
      await clock.tickAsync(1);
      expect(rounds.slice(3)).toEqual([20 * MINUTE]);
      creation.onModuleDestroy();
      await clock.tickAsync(60 * MINUTE);
      expect(rounds).toHaveLength(4);
    } finally {
      clock.uninstall();
    }
  });
});
