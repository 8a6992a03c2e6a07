import { setTimeout as wait } from 'node:timers/promises';
import { Client } from 'pg';
import { OperatorError } from '../../src/errors/operator-error.js';
import { runMigrations } from '../../src/schema/migrations.js';
import type { Answer } from '../support/answers.js';
import { catalog } from '../support/catalog.js';
import { CREATE_ORDERS, revertOrders } from '../support/revert-to-orders.js';
import { onServer } from '../support/database.js';
import { serviceOfTests, useRealTimes } from '../support/service.js';
import { until } from '../support/until.js';

useRealTimes();

type Send = () => PromiseLike<Pick<Answer, 'status' | 'text'>>;

/**
 * Sends one request after the other every so many milliseconds, whatever those before wait for.
 * @returns what stops that, and returns all statuses.
 */
function clientsOf(requests: Send[], every: number) {
  const pending: Promise<number>[] = [];
  const timer = setInterval(() => {
    const send = requests[pending.length % requests.length]!;
    pending.push(Promise.resolve(send()).then(({ status }) => status));
  }, every);
  return async () => {
    clearInterval(timer);
    return new Set(await Promise.all(pending));
  };
}

describe.each([10, 2])('with %d sessions', (size) => {
  let locker: Client;
  afterEach(() => jest.restoreAllMocks());
  // Before its database is dropped.
  afterAll(() => locker.end());
  const service = serviceOfTests({ DATABASE_POOL_SIZE: String(size) });
  beforeAll(async () => {
    const database = new URL(service.databaseUrl).pathname.slice(1);
    // The limit of other sessions is shorter than that of a migration.
    await onServer(`alter database ${database} set statement_timeout = '250ms'`);
    locker = new Client({ connectionString: service.databaseUrl, application_name: 'report' });
    await locker.connect();
    await create().expect(201);
  });

  const get = (path: string) => () => service.api.get(path);
  const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
  let keys = 0;
  const createOnce = () => create().set('Idempotency-Key', `${keys++}`);
  const ON = {
    pets: [get('/v1/pets'), get('/v1/pets?status=sold'), get('/v1/pets/1'), create, createOnce],
    orders: [get('/v1/store/orders')],
  };
  /** Readiness, and a list with a key that must be looked up. */
  const others = async (path: string) => {
    const { key } = await service.keys.issue('new');
    return [
      service.anonymous.get('/health/ready'),
      service.anonymous.get(path).set('Authorization', `Bearer ${key}`),
    ];
  };

  it('a warning says so if they are too few for all modules', () => {
    const reason =
      /"level":"warn".*"reason":"DATABASE_POOL_SIZE is 2, and should be [3-9] or more\."/;
    const warnings = service.log.filter((line) => reason.test(line));
    expect(warnings).toHaveLength(size === 2 ? 1 : 0);
  });

  it.each([
    ['pets', ON.pets, ON.orders, '/v1/store/orders'],
    ['orders', ON.orders, ON.pets, '/v1/pets'],
  ])('a lock of %s keeps only operations on them waiting', async (table, locked, free, path) => {
    await locker.query(`begin; lock table ${table} in access exclusive mode`);
    const stop = clientsOf(locked, 10);
    try {
      const start = performance.now();
      await wait(300);
      while (performance.now() < start + 1_500) {
        const answers = await Promise.all([...free.map((send) => send()), ...(await others(path))]);
        const failed = answers.filter(({ status }) => status > 201);
        expect(failed.map(({ status, text }) => `${status} ${text}`)).toEqual([]);
      }
    } finally {
      await locker.query('rollback');
      await stop();
    }
    expect([200, 201, 503]).toEqual(expect.arrayContaining([...(await stop())]));
    await until('it recovers', async () => (await create()).status === 201);
  });

  // Skipped with 2 sessions: pets have one of them then, and while it waits for the lock, others wait for it.
  const itWithTen = size === 10 ? it : it.skip;

  /** Sends lists, gets and creates, 60 a second, until `work` is done. All succeed. */
  async function expectServedWhile(work: () => Promise<unknown>): Promise<void> {
    const stop = clientsOf([get('/v1/pets'), get('/v1/pets/1'), create, createOnce], 1_000 / 60);
    jest.spyOn(console, 'error').mockImplementation(() => {});
    await work().finally(stop);
    expect(await stop()).toEqual(new Set([200, 201]));
  }

  itWithTen(
    'a migration gives up while an open transaction has read the pets, names who holds the lock, changes nothing, and fails no request',
    async () => {
      // A rollback does not take back the numbers of a sequence.
      await service.query('create sequence attempts');
      await service.query(
        `create function attempted() returns event_trigger language plpgsql as
           $$ begin perform nextval('attempts'); end $$`,
      );
      await service.query(
        `create event trigger counted on ddl_command_start when tag in ('DROP TABLE') execute function attempted()`,
      );
      const before = await catalog(service.databaseUrl);
      await locker.query('begin; select from pets');
      const { rows } = await locker.query('select pg_backend_pid() as pid');
      let error: any;
      const start = performance.now();
      await expectServedWhile(async () => {
        error = await revertOrders(service.databaseUrl).catch((cause: unknown) => cause);
      });
      // Requests proceed for as long after each attempt but the last.
      const duration = performance.now() - start;
      expect(duration).toBeGreaterThan((15 + 14) * 300);
      expect(duration).toBeLessThan((15 + 14) * 300 + 20_000);
      await locker.query('rollback');
      expect(error).toBeInstanceOf(OperatorError);
      expect(error.cause).toMatchObject({ code: '55P03' });
      expect(error.message).toBe(
        `Nothing was changed in 15 attempts of 300 ms. Waits for pid ${rows[0].pid}, report, idle in transaction.\n` +
          'Wait until these sessions end, or end them with pg_terminate_backend(pid). Then run the command again.',
      );
      expect(await catalog(service.databaseUrl)).toEqual(before);
      const attempts = await service.query('select last_value::int as count from attempts');
      expect(attempts).toEqual([{ count: 15 }]);
      await service.query('drop event trigger counted');
    },
  );

  itWithTen(
    'a migration tries again until an open transaction that has updated a pet ends, and fails no request',
    async () => {
      await revertOrders(service.databaseUrl);
      await locker.query(`begin; update pets set name = 'Max' where id = 1`);
      await expectServedWhile(async () => {
        const running = runMigrations(service.databaseUrl);
        const attempts = new Set<string>();
        await until('three attempts have waited', async () => {
          const rows = await service.query(
            `select query_start::text as attempt from pg_locks join pg_stat_activity using (pid)
              where not granted and mode = 'ShareRowExclusiveLock' and datname = current_database()`,
          );
          rows.forEach(({ attempt }) => attempts.add(attempt));
          return attempts.size > 3;
        });
        await locker.query('rollback');
        expect(await running).toEqual([CREATE_ORDERS]);
      });
    },
  );
});
