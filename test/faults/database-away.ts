/**
 * The database goes away under requests that come at a fixed rate, and comes back. test/database/database-down has the
 * ways of being away that need no process of its own.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { query } from '../support/ask.js';
import type { Postgres } from '../support/postgres.js';
import { until } from '../support/until.js';
import { animal, type Answer, ask, most, type Question, Stream } from './clients.js';
import { note } from './report.js';
import { type Run, Service, sessions } from './service.js';

const PROMISE = 'Without its database the service says so, stays alive, and serves again with it';

/** DATABASE_POOL_SIZE. */
const POOL = 10;

interface Outage {
  name: string;
  isInShort?: boolean;
  begin: (postgres: Postgres) => void | Promise<void>;
  end: (postgres: Postgres) => void | Promise<void>;
  /** Whether only creates fail meanwhile; readiness then stays 200. */
  servesReads?: boolean;
}

const OUTAGES: Outage[] = [
  {
    name: 'killed with -9',
    isInShort: true,
    begin: (postgres) => postgres.kill(),
    end: (postgres) => postgres.launch(),
  },
  {
    name: 'restarted',
    begin: (postgres) => postgres.shutDown(),
    end: (postgres) => postgres.launch(),
  },
  {
    name: 'hanging (SIGSTOP of all its processes)',
    isInShort: true,
    begin: (postgres) => postgres.pause(),
    end: (postgres) => postgres.resume(),
  },
  {
    name: 'without the standby that commits wait for',
    servesReads: true,
    begin: ({ url }) => setStandbyNames(url, `'nobody'`),
    // PostgreSQL goes on with such a commit when its client has left.
    end: ({ url }) => setStandbyNames(url, 'default'),
  },
];

async function setStandbyNames(url: string, names: string): Promise<void> {
  await query(url, `alter system set synchronous_standby_names = ${names}`);
  await query(url, 'select pg_reload_conf()');
}

export async function databaseAway({ postgres, key, isShort }: Run): Promise<void> {
  const service = await Service.start(postgres.url);
  try {
    for (const outage of OUTAGES.filter(({ isInShort }) => isInShort || !isShort)) {
      await endure(outage, postgres, service.origin, key, isShort ? 2_000 : 6_000);
    }
  } finally {
    await service.kill();
  }
}

async function endure(
  { name, begin, end, servesReads = false }: Outage,
  postgres: Postgres,
  origin: string,
  key: string,
  milliseconds: number,
): Promise<void> {
  const all = questions(key);
  const requests = new Stream(origin, 10, (n) => all[n % all.length]!(n));
  const live = new Stream(origin, 100, () => ({ path: '/health/live' }));
  const ready = new Stream(origin, 100, () => ({ path: '/health/ready' }));
  await wait(500);

  const begun = performance.now();
  await begin(postgres);
  const during = performance.now();
  await wait(milliseconds);
  const ending = performance.now();
  await end(postgres);
  const ended = performance.now();
  // Every kind of request succeeds, one after the other.
  await until(
    'all succeed again',
    async () => {
      for (const question of all) {
        if (!isServed(await ask(origin, question(performance.now())))) {
          return false;
        }
      }
      return true;
    },
    15,
  ).catch(() => undefined);
  const back = performance.now() - ended;
  await wait(500);
  const answers = await requests.stop();
  const lives = await live.stop();
  const readiness = await ready.stop();
  const isDuring = ({ at }: Answer) => at > begun && at < ended;
  const isWrong = (answer: Answer) =>
    !(isServed(answer) || (answer.status === 503 && answer.headers?.['retry-after']));
  note(PROMISE, name, [
    {
      name: 'refused',
      value: answers.filter((answer) => answer.status === 503 && isDuring(answer)).length,
      atLeast: 1,
    },
    {
      name: 'longest response',
      value: most(answers.map(({ ms }) => ms)),
      unit: ' ms',
      atMost: 5_000,
    },
    {
      name: 'other than 2xx and 503 with Retry-After',
      value: answers.filter(isWrong).length,
      is: 0,
    },
    ...(servesReads
      ? [
          {
            name: 'lists refused',
            value: answers.filter(
              ({ question, ...answer }) =>
                question.method === undefined &&
                answer.at > during + 200 &&
                answer.at + answer.ms < ending &&
                !isServed(answer),
            ).length,
            // While the service learns of it, its old sessions end under some.
            atMost: 5,
            isTimed: true,
          },
        ]
      : []),
    {
      name: 'live',
      value: most(lives.map(({ status, ms }) => (status === 200 ? ms : Infinity))),
      unit: ' ms',
      atMost: 1_000,
    },
    {
      name: 'ready',
      value: readiness.some((answer) => isDuring(answer) && answer.status === 503) ? 'no' : 'yes',
      is: servesReads ? 'yes' : 'no',
    },
    { name: 'back after', value: Math.round(back), unit: ' ms', atMost: 2_000 },
    {
      name: 'refused afterwards',
      value: answers.filter((answer) => answer.at > ended + back && !isServed(answer)).length,
      is: 0,
    },
    { name: 'sessions', value: await sessions(postgres.url), atMost: POOL },
  ]);
}

const isServed = ({ status }: Answer) => status === 200 || status === 201;

/** Each kind of request. */
function questions(key: string): ((n: number) => Question)[] {
  const create = { method: 'POST', path: '/v1/pets', key };
  return [
    () => ({ path: '/v1/pets', key }),
    (n) => ({ ...create, body: animal(`n${n}`) }),
    () => ({ path: '/v1/pets?status=sold', key }),
    (n) => ({
      ...create,
      body: animal(`n${n}`),
      headers: { 'Idempotency-Key': `away-${performance.now()}-${n}` },
    }),
  ];
}
