import { Client } from 'pg';
import { OperatorError } from '../../src/errors/operator-error.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { catalog } from '../support/catalog.js';
import { CREATE_ORDERS, revertOrders } from '../support/revert-to-orders.js';
import { onServer, serviceOfTests } from '../support/service.js';
import { until } from '../support/until.js';

/** Requests a second. */
const RATE = 60;

describe('a migration that waits for a lock', () => {
  let holder: Client;
  // Before its database is dropped.
  afterAll(() => holder.end());
  const service = serviceOfTests();
  beforeAll(async () => {
    const { databaseUrl } = service;
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    // The role's limit is shorter than that of a migration.
    const database = new URL(databaseUrl).pathname.slice(1);
    await onServer(`alter database ${database} set statement_timeout = '250ms'`);
    holder = new Client({ connectionString: databaseUrl, application_name: 'report' });
    await holder.connect();
  });

  /** Sends lists, gets and creates at a fixed rate until `work` is done. All succeed. */
  async function expectServedWhile(work: () => Promise<unknown>): Promise<void> {
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
    const told = jest.spyOn(console, 'error').mockImplementation(() => {});
    try {
      await work();
    } finally {
      clearInterval(arriving);
      told.mockRestore();
    }
    expect(new Set(await Promise.all(pending))).toEqual(new Set([200, 201]));
  }

  it('gives up while an open transaction has read the pets, names who holds the lock, changes nothing, and fails no request', async () => {
    const before = await catalog(service.databaseUrl);
    await holder.query('begin; select from pets');
    const { rows } = await holder.query('select pg_backend_pid() as pid');
    let error: any;
    await expectServedWhile(async () => {
      error = await revertOrders(service.databaseUrl).catch((cause: unknown) => cause);
    });
    await holder.query('rollback');
    expect(error).toBeInstanceOf(OperatorError);
    expect(error.cause).toMatchObject({ code: '55P03' });
    expect(error.message).toBe(
      `Nothing was changed in 15 attempts of 300 ms. Waits for pid ${rows[0].pid}, report, idle in transaction.\n` +
        'Wait until these sessions end, or end them with pg_terminate_backend(pid). Then run the command again.',
    );
    expect(await catalog(service.databaseUrl)).toEqual(before);
  });

  it('tries again until an open transaction that has updated a pet ends, and fails no request', async () => {
    await revertOrders(service.databaseUrl);
    await holder.query(`begin; update pets set name = 'Max' where id = 1`);
    await expectServedWhile(async () => {
      const running = runMigrations(service.databaseUrl);
      const attempts = new Set<string>();
      await until('three attempts have waited', async () => {
        const rows = await service.query(
          `select query_start::text as attempt from pg_locks join pg_stat_activity using (pid)
            where not granted and mode = 'ShareRowExclusiveLock'`,
        );
        rows.forEach(({ attempt }) => attempts.add(attempt));
        return attempts.size > 3;
      });
      await holder.query('rollback');
      expect(await running).toEqual([CREATE_ORDERS]);
    });
  });
});
