/** SIGTERM and SIGINT: what is under way is answered, and nothing stays behind. */
import { animal, ask, Stream, until } from './clients.js';
import { Service } from './processes.js';
import { note } from './report.js';
import { setTimeout as wait } from 'node:timers/promises';

/** @param {{ postgres: import('./postgres.js').Postgres }} run */
export async function stopping({ postgres }) {
  const { key } = postgres;
  /** @type {[NodeJS.Signals, Record<string, string>][]} */
  const ways = [
    ['SIGTERM', { DRAIN_SECONDS: '1' }],
    ['SIGINT', {}],
  ];
  for (const [signal, variables] of ways) {
    const service = await Service.start(postgres.url, variables);
    const locker = await postgres.connect();
    await locker.query('begin; lock table pets in access exclusive mode');
    const underWay = Array.from({ length: 100 }, (_, n) =>
      ask(service.origin, { method: 'POST', path: '/v1/pets', key, body: animal(`last ${n}`) }),
    );
    await until(
      async () => (await postgres.sessions()) > 0 && (await waiting(postgres)) > 0,
      5_000,
    );
    // They are accepted and read in their order: before these, all of them have been.
    await ask(service.origin, { path: '/health/live' });
    await ask(service.origin, { path: '/health/live' });
    const ready = new Stream(service.origin, 20, () => ({ path: '/health/ready' }));
    const since = performance.now();
    const ended = service.end(signal);
    await wait(200);
    await locker.end();
    const answers = await Promise.all(underWay);
    const code = await ended;
    const took = performance.now() - since;
    const readiness = await ready.stop();
    const inOrder = readiness.filter(({ at }) => at > since).toSorted((a, b) => a.at - b.at);
    const noticed = inOrder.findIndex(({ status }) => status !== 200);
    note(
      'Stopping answers what is under way',
      `${signal} with 100 creates under way that wait for a lock`,
      [
        {
          name: 'answered 201',
          value: answers.filter(({ status }) => status === 201).length,
          is: 100,
        },
        {
          name: 'ready afterwards',
          value: inOrder.slice(noticed).some(({ status }) => status === 200) ? 'yes' : 'no',
          is: 'no',
        },
        { name: 'exit code', value: code, is: 0 },
        {
          name: 'ended after',
          value: Math.round(took),
          unit: ' ms',
          atMost: signal === 'SIGTERM' ? 3_500 : 1_500,
        },
        { name: 'sessions left', value: await postgres.sessions(), is: 0 },
      ],
    );
  }
}

async function waiting(postgres) {
  const [{ count }] = await postgres.query(
    `select count(*)::int from pg_stat_activity where wait_event_type = 'Lock'`,
  );
  return count;
}
