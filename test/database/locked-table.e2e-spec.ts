import { setTimeout as wait } from 'node:timers/promises';
import { Client } from 'pg';
import { PETS } from '../../src/pets/pets.service.js';
import { storesOn } from '../support/stores.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';
import { until } from '../support/until.js';

let url: string;
let locker: Client;
beforeAll(async () => {
  url = await createMigratedDatabase();
  locker = new Client({ connectionString: url });
  await locker.connect();
});
afterAll(async () => {
  await locker.end();
  await dropDatabase(url);
});

const EVERY = 10;
const SECONDS = 3;

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
  let service: TestService;
  beforeAll(async () => {
    service = await startService({ DATABASE_POOL_SIZE: String(size) }, url);
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });
  afterAll(() => service.stop());

  const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
  let keys = 0;
  const onPets = [
    () => service.api.get('/v1/pets').then(({ status }) => status),
    () => service.api.get('/v1/pets?status=sold').then(({ status }) => status),
    () => service.api.get('/v1/pets/1').then(({ status }) => status),
    () => create().then(({ status }) => status),
    () =>
      create()
        .set('Idempotency-Key', `${size}-${keys++}`)
        .then(({ status }) => status),
  ];
  const onOrders = () => service.api.get('/v1/store/orders').then(({ status }) => status);
  /** Of readiness, and of a request with a key that must be looked up. */
  const others = async (path: string) => {
    const { key } = await service.keys.issue('new');
    const answers = await Promise.all([
      service.anonymous.get('/health/ready'),
      service.anonymous.get(path).set('Authorization', `Bearer ${key}`),
    ]);
    return answers.map(({ status }) => status);
  };

  it.each([
    ['pets', onPets, '/v1/store/orders', () => [onOrders()], [200]],
    [
      'orders',
      [onOrders],
      '/v1/pets',
      () => onPets.map((send) => send()),
      [200, 200, 200, 201, 201],
    ],
  ] as const)(
    'a lock of %s keeps only operations on them waiting',
    async (table, busy, path, free, statuses) => {
      await locker.query(`begin; lock table ${table} in access exclusive mode`);
      const stop = clientsOf([...busy]);
      try {
        const start = performance.now();
        await wait(300);
        while (performance.now() < start + SECONDS * 1000) {
          expect(await Promise.all(free())).toEqual(statuses);
          expect(await others(path)).toEqual([200, 200]);
        }
      } finally {
        await locker.query('rollback');
        await stop();
      }
      await until('it recovers', async () => (await create()).status === 201);
    },
  );

  it('each statement of a batch counts on Citus', async () => {
    const { dataSource, pool, reader } = await storesOn(url, 'citus', size);
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
