import { setTimeout as wait } from 'node:timers/promises';
import { serviceOfTests } from '../support/service.js';

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

  it.each([
    ['lists', () => service.api.get('/v1/pets')],
    ['gets', () => service.api.get('/v1/pets/1')],
    ['creates', () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 })],
  ])('at most 3 %% of %s fail, and no other session is closed', async (_what, request) => {
    const pid = await nextSession();
    const closed: unknown[] = [];
    const note = (session: object) => closed.push('processID' in session && session.processID);
    service.pool.on('remove', note);
    process.kill(pid, 'SIGSTOP');
    try {
      const start = performance.now();
      const statuses = Array.from({ length: (SECONDS * 1000) / EVERY }, async (_, i) => {
        await wait(start + i * EVERY - performance.now());
        return (await request()).status;
      });
      const failed = (await Promise.all(statuses)).filter((status) => status >= 300);
      expect(failed.length).toBeLessThanOrEqual(0.03 * statuses.length);
      expect(closed).toEqual([pid]);
    } finally {
      process.kill(pid, 'SIGCONT');
      service.pool.off('remove', note);
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
