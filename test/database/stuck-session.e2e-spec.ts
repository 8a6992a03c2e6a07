import { setTimeout as wait } from 'node:timers/promises';
import { query } from '../support/ask.js';
import { Postgres } from '../support/postgres.js';
import { serviceOfTests, startService } from '../support/service.js';
import { until } from '../support/until.js';

const EVERY = 10;
const SECONDS = 3;

describe('while one session with PostgreSQL hangs', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });

  /** Opens six sessions. @returns the process id of the one that the pool gives to the next statement. */
  async function nextSession(): Promise<number> {
    const clients = await Promise.all(Array.from({ length: 6 }, () => service.pool.connect()));
    clients.forEach((client) => client.release());
    const [{ pid }] = await service.query('select pg_backend_pid() as pid');
    return pid;
  }

  it('at most 3 % of requests fail, and no other session is closed', async () => {
    const pet = { name: 'Rex', categoryId: 1 };
    const requests = [
      () => service.api.get('/v1/pets'),
      () => service.api.get('/v1/pets/1'),
      () => service.api.post('/v1/pets').send(pet),
    ];
    const pid = await nextSession();
    const closed: unknown[] = [];
    service.pool.on('remove', (session: object) =>
      closed.push('processID' in session && session.processID),
    );
    process.kill(pid, 'SIGSTOP');
    try {
      const start = performance.now();
      const statuses = Array.from({ length: (SECONDS * 1000) / EVERY }, async (_, i) => {
        await wait(start + i * EVERY - performance.now());
        return (await requests[i % requests.length]!()).status;
      });
      const failed = (await Promise.all(statuses)).filter((status) => status >= 300);
      expect(failed.length).toBeLessThanOrEqual(0.03 * statuses.length);
      expect(closed).toEqual([pid]);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });

  it('one request fails although all idle sessions hang', async () => {
    await nextSession();
    const rows = await service.query(
      `select pid from pg_stat_activity
        where datname = current_database() and application_name = 'animal-store'`,
    );
    rows.forEach(({ pid }) => process.kill(pid, 'SIGSTOP'));
    try {
      await service.api.get('/v1/pets').expect(503);
      await Promise.all(Array.from({ length: 20 }, () => service.api.get('/v1/pets').expect(200)));
    } finally {
      rows.forEach(({ pid }) => process.kill(pid, 'SIGCONT'));
    }
  });
});

it('no session stays behind while commits wait for a standby that is lost, although the service logs in as another role', async () => {
  const server = await Postgres.start();
  const onServer = (...statements: string[]) => query(server.url, ...statements);
  await onServer(
    `create role owner; create role migrator login password 'sekrit'; grant owner to migrator;
     alter role migrator in database postgres set role = owner;
     grant usage, create on schema public to owner`,
  );
  const service = await startService({}, server.url.replace(/\/\/[^@]*@/, '//migrator:sekrit@'));
  const create = (key: string) =>
    service.api
      .post('/v1/pets')
      .set('Idempotency-Key', key)
      .send({ name: 'Rex', categoryId: 1 })
      .then(({ status }) => status);
  const setStandby = (name: string) =>
    onServer(`alter system set synchronous_standby_names = '${name}'`, 'select pg_reload_conf()');
  const waiting = async () =>
    (await onServer(`select from pg_stat_activity where wait_event = 'SyncRep'`)).length;
  await setStandby('lost');
  try {
    await until('a commit waits', async () => {
      await create('first');
      return (await waiting()) > 0;
    });
    for (let round = 0; round < 3; round += 1) {
      const creates = Array.from({ length: 12 }, (_, i) => create(`${round}-${i}`));
      expect(await Promise.all(creates)).not.toContain(500);
    }
    await until('none waits', async () => (await waiting()) === 0, 20);
  } finally {
    await setStandby('');
    await service.stop();
    await server.stop();
  }
});
