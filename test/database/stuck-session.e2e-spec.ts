import type { PoolClient } from 'pg';
import { processIdOf } from '../../src/database/servers.js';
import { query } from '../support/ask.js';
import { Postgres } from '../support/postgres.js';
import { serviceOfTests, startService } from '../support/service.js';
import { until } from '../support/until.js';

describe('while sessions with PostgreSQL hang,', () => {
  const service = serviceOfTests();
  const list = async () => (await service.api.get('/v1/pets')).status;

  it.each([
    ['the session of the next statement', -1],
    ['all idle sessions', 0],
  ])('at most one request fails, and no other session is closed: %s', async (_which, first) => {
    expect(await list()).toBe(200);
    const { pool } = service;
    const sessions = await Promise.all(Array.from({ length: 10 }, () => pool.connect()));
    sessions.forEach((session) => session.release());
    const hanging = sessions.slice(first).map(processIdOf);
    const closed: number[] = [];
    const onRemove = (session: PoolClient) => closed.push(processIdOf(session));
    pool.on('remove', onRemove);
    hanging.forEach((pid) => process.kill(pid, 'SIGSTOP'));
    try {
      const statuses = [await list(), ...(await Promise.all(Array.from({ length: 20 }, list)))];
      expect(statuses.filter((status) => status !== 200).length).toBeLessThanOrEqual(1);
      await until('they are closed', () => closed.length >= hanging.length);
      expect(closed.toSorted()).toEqual(hanging.toSorted());
    } finally {
      hanging.forEach((pid) => process.kill(pid, 'SIGCONT'));
      pool.off('remove', onRemove);
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
