import { setTimeout as wait } from 'node:timers/promises';
import { Client } from 'pg';
import { PETS } from '../../src/pets/pets.service.js';
import { storesOn } from '../support/stores.js';
import { serviceOfTests } from '../support/service.js';
import { until } from '../support/until.js';

const EVERY = 10;
const SECONDS = 1.5;

/** Sends a request every {@link EVERY} ms, whatever the others wait for, until it is stopped. */
function clientsOf(paths: (() => unknown)[]) {
  const requests: unknown[] = [];
  const timer = setInterval(() => requests.push(paths[requests.length % paths.length]!()), EVERY);
  return async () => {
    clearInterval(timer);
    await Promise.allSettled(requests);
  };
}

describe.each([10, 2])('with %d sessions', (size) => {
  let locker: Client;
  // Before its database is dropped.
  afterAll(() => locker.end());
  const service = serviceOfTests({ DATABASE_POOL_SIZE: String(size) });
  beforeAll(async () => {
    locker = new Client({ connectionString: service.databaseUrl });
    await locker.connect();
    await create().expect(201);
  });

  const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
  let keys = 0;
  const statusOf = async (request: PromiseLike<{ status: number }>) => (await request).status;
  const list = (path: string) => () => statusOf(service.api.get(path));
  const ON = {
    pets: [
      list('/v1/pets'),
      list('/v1/pets?status=sold'),
      list('/v1/pets/1'),
      () => statusOf(create()),
      () => statusOf(create().set('Idempotency-Key', `${size}-${keys++}`)),
    ],
    orders: [list('/v1/store/orders')],
  };
  /** Of readiness, and of a list with a key that must be looked up. */
  const others = async (path: string) => {
    const { key } = await service.keys.issue('new');
    return Promise.all([
      statusOf(service.anonymous.get('/health/ready')),
      statusOf(service.anonymous.get(path).set('Authorization', `Bearer ${key}`)),
    ]);
  };

  it.each([
    ['pets', ON.pets, ON.orders, '/v1/store/orders'],
    ['orders', ON.orders, ON.pets, '/v1/pets'],
  ])('a lock of %s keeps only operations on them waiting', async (table, locked, free, path) => {
    await locker.query(`begin; lock table ${table} in access exclusive mode`);
    const stop = clientsOf(locked);
    try {
      const start = performance.now();
      await wait(300);
      while (performance.now() < start + SECONDS * 1000) {
        const statuses = await Promise.all([...free.map((send) => send()), others(path)]);
        expect(statuses.flat().filter((status) => status > 201)).toEqual([]);
      }
    } finally {
      await locker.query('rollback');
      await stop();
    }
    await until('it recovers', async () => (await create()).status === 201);
  });

  it('each statement of a batch counts on Citus', async () => {
    const { dataSource, pool, reader } = await storesOn(service.databaseUrl, 'citus', size);
    await locker.query(`begin; lock table pets in access exclusive mode`);
    const pages = Array.from({ length: 50 }, (_, i) => ({ start: BigInt(i), size: 1, values: [] }));
    const batch = reader.of(PETS, [])(pages);
    await until('they wait', () => pool.totalCount - pool.idleCount === Math.max(size - 1, 1));
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await locker.query('rollback');
    expect(await batch).toHaveLength(50);
    await dataSource.destroy();
  });
});
