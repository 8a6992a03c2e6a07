import { Client } from 'pg';
import { runMigrations } from '../../src/schema/migrations.js';
import { revertOrders } from '../support/revert-to-orders.js';
import { startService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

/** Requests a second. */
const RATE = 60;

describe('a migration that waits for a lock', () => {
  let service: TestService;
  let holder: Client;
  beforeAll(async () => {
    service = await startService();
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    holder = new Client({ connectionString: service.databaseUrl });
    await holder.connect();
  });
  afterAll(async () => {
    await holder.end();
    await service.stop();
  });

  /**
   * Holds the lock of `sql` in a transaction until `work` has waited for it in three attempts.
   *
   * @returns the statuses of lists, gets and creates, which arrived at a fixed rate until `work` was done.
   */
  async function statusesWhile(work: () => Promise<unknown>, sql: string): Promise<Set<number>> {
    const { api } = service;
    const create = () => api.post('/v1/pets').send({ name: 'Bello', categoryId: 1 });
    const requests = [
      () => api.get('/v1/pets'),
      () => api.get('/v1/pets/1'),
      create,
      () => create().set('Idempotency-Key', String(pending.length)),
    ];
    const pending: Promise<number>[] = [];
    const arriving = setInterval(() => {
      const request = requests[pending.length % requests.length]!;
      pending.push(Promise.resolve(request()).then(({ status }) => status));
    }, 1_000 / RATE);
    await holder.query(`begin; ${sql}`);
    const noted = jest.spyOn(console, 'error').mockImplementation(() => {});
    const working = work();
    try {
      const attempts = new Set<string>();
      await until('three attempts have waited', async () => {
        const rows = await service.query(
          `select query_start::text as attempt from pg_locks join pg_stat_activity using (pid)
            where not granted and mode in ('AccessExclusiveLock', 'ShareRowExclusiveLock')`,
        );
        rows.forEach(({ attempt }) => attempts.add(attempt));
        return attempts.size > 3;
      });
      await holder.query('rollback');
      await working;
    } finally {
      clearInterval(arriving);
      noted.mockRestore();
    }
    return new Set(await Promise.all(pending));
  }

  it('fails no request while an open transaction has updated a pet, or has read the pets', async () => {
    const url = service.databaseUrl;
    const reading = await statusesWhile(() => revertOrders(url), 'select from pets');
    expect(reading).toEqual(new Set([200, 201]));
    const update = `update pets set name = 'Max' where id = 1`;
    expect(await statusesWhile(() => runMigrations(url), update)).toEqual(new Set([200, 201]));
  });
});
