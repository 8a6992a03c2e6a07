/** Many more clients than can be served, and half as many for an hour. */
import { fileURLToPath } from 'node:url';
import { freePort } from '../../scripts/free-port.mjs';
import { areInstalled, Program } from '../support/program.js';
import { until } from '../support/until.js';
import {
  type Answer,
  create,
  isServed,
  longest,
  most,
  p99,
  quantile,
  type Question,
  Stream,
} from './clients.js';
import { type Figure, note, skip } from './report.js';
import { fill, type Run, Service, sessions } from './service.js';
import { ASSETS, open } from './slow-clients.js';

const SCRIPTS = fileURLToPath(new URL('.', import.meta.url));

/** Connections that carry as much as the service can. */
const ENOUGH = 64;

/** Percent of the peak. */
const LEAST_SHARE = 80;

interface Load {
  service: Service;
  key: string;
  /** `creates` and `soak` are scripts. */
  kind: 'lists' | 'creates' | 'soak';
  /** Milliseconds before each request of a connection; the script `soak` observes it. */
  pause?: number;
  connections: number;
  seconds: number;
}

type Result = Awaited<ReturnType<typeof wrk>>;

export async function overload({ postgres, key }: Run): Promise<void> {
  if (!areInstalled('wrk')) {
    return skip('overload', 'wrk is not installed');
  }
  await fill(postgres.url, 1_000);
  const service = await Service.start(postgres.url);
  const spared = await Service.start(postgres.url);
  const peak: Load = { service, key, kind: 'lists', connections: ENOUGH, seconds: 3 };
  // Warms them up.
  await wrk(peak);
  await wrk({ ...peak, service: spared });
  await crowd(peak, spared, 10 * ENOUGH);
  await crowd({ ...peak, kind: 'creates' }, spared, 10 * ENOUGH);
  await crowd(peak, spared, 8_000);
  await Promise.all([service.kill(), spared.kill()]);
}

/** @param spared has no load; this one's peak is compared with that one's afterwards. */
async function crowd(peak: Load, spared: Service, connections: number): Promise<void> {
  const isServable = connections <= 10 * ENOUGH;
  const seconds = isServable ? 3 : 6;
  const { origin } = peak.service;
  const answers: Answer[] = [];
  const lives: Answer[] = [];
  const [peaks, crowds] = await inTurns(
    isServable ? 5 : 1,
    () => wrk(peak),
    async () => {
      // Clients that come at their own pace, each on a connection of its own, whatever the service does.
      const newClient: Question = { path: '/v1/pets', key: peak.key, agent: false };
      const clients = new Stream(origin, 20, () => newClient);
      const live = new Stream(origin, 100, () => ({ path: '/health/live' }));
      const found = await wrk({ ...peak, seconds, connections });
      answers.push(...(await clients.stop()));
      lives.push(...(await live.stop()));
      return found;
    },
  );
  const since = performance.now();
  await until('the crowd has left', async () => (await peak.service.files()) < 4 * ENOUGH);
  const leaving = performance.now() - since;
  const [afterwards, unharmed] = await inTurns(
    2,
    () => wrk(peak),
    () => wrk({ ...peak, service: spared }),
  );
  const served = answers.filter(isServed);
  const worst = (of: keyof Result) => most(crowds.map((one) => one[of]));
  const limit = (text: string) => (isServable ? text : '');
  note(
    `${connections} connections send ${peak.kind} without pause; the peak needs ${ENOUGH}`,
    ['throughput in percent of the peak', share(crowds, peaks), limit(`≥ ${LEAST_SHARE}`), '%'],
    ['p99', worst('p99'), limit('≤ 1,000'), 'ms'],
    ['requests without a response within 5 s', worst('unanswered'), limit('= 0')],
    ['requests rejected per second', worst('refused') / seconds],
    ['p99 of 50 new clients per second', p99(served), limit('≤ 1,000'), 'ms'],
    ['share of them rejected', (1 - served.length / answers.length) * 100, limit('≤ 50'), '%'],
    ['longest response of /health/live', longest(lives), '', 'ms'],
    ['memory', await peak.service.memory(), '≤ 512', 'MiB'],
    ['time until the service has closed its connections', leaving, '≤ 2,000', 'ms'],
    [
      'peak afterwards in percent of that of a service without overload',
      share(afterwards, unharmed),
      `≥ ${LEAST_SHARE}`,
      '%',
    ],
  );
}

/** The machine's speed varies, so what is to be compared is measured in turns. @returns the results of each. */
async function inTurns(rounds: number, one: () => Promise<Result>, other: () => Promise<Result>) {
  const results: [Result[], Result[]] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    results[0].push(await one());
    results[1].push(await other());
  }
  return results;
}

const total = (results: Result[], of: keyof Result) =>
  results.reduce((sum, result) => sum + result[of], 0);

/** In percent. */
const share = (results: Result[], of: Result[]) =>
  (total(results, 'accepted') / total(of, 'accepted')) * 100;

async function wrk(load: Load) {
  const { kind, pause = '', connections, seconds, service, key } = load;
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '--timeout=5s'];
  if (kind !== 'lists') {
    args.push(`--script=${SCRIPTS}${kind}.lua`);
  }
  args.push(`--header=Authorization: Bearer ${key}`, `${service.origin}/v1/pets`, '--', `${pause}`);
  const { stdout } = await Program.start('wrk', args).outcome;
  const count = (pattern: RegExp) => Number(pattern.exec(stdout)?.[1] ?? 0);
  const requests = count(/(\d+) requests in/);
  const refused = count(/Non-2xx or 3xx responses: (\d+)/);
  const errors = /Socket errors: (.+)/.exec(stdout)?.[1]?.match(/\d+/g) ?? [];
  const took = requests / count(/Requests\/sec: +([\d.]+)/);
  const [, digits, unit] = /^ +99% +([\d.]+)(us|ms|s) *$/m.exec(stdout) ?? [];
  return {
    /** Per second. */
    accepted: (requests - refused) / took,
    /** All of them, so that few do not count as none. */
    refused,
    unanswered: errors.reduce((sum, each) => sum + Number(each), 0),
    /** Milliseconds. */
    p99: Number(digits) * { us: 0.001, ms: 1, s: 1000 }[unit as 'us' | 'ms' | 's'],
  };
}

/** What the process holds, and which of many samples counts: of the heap, that with the least garbage. */
const HELD = [
  ['bytes of heap', 0],
  ['open files and sockets', 0.5],
  ['sessions in the database', 0.5],
] as const;

/** Percent by which it may grow after the first sixth of the time. */
const MOST_GROWTH = 5;

/** Half of the peak for an hour, with clients that come and go or misbehave: nothing that the process holds grows. */
export async function soak({ postgres: { url }, key, count }: Run): Promise<void> {
  await fill(url, 1_000);
  const METRICS_PORT = String(await freePort());
  const service = await Service.start(url, { METRICS_PORT });
  const load: Load = { service, key, kind: 'soak', connections: ENOUGH, seconds: 10 };
  const samples: { at: number; held: number[] }[] = [];
  const sample = async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${METRICS_PORT}/metrics`)).text();
    const of = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
    const held = [of('nodejs_heap_size_used_bytes'), of('process_open_fds'), await sessions(url)];
    samples.push({ at: performance.now(), held });
  };
  await wrk(load);
  const { accepted: peak } = await wrk(load);
  // Milliseconds from one request of a connection to its next; the response takes a part of them.
  const cycle = (2_000 * ENOUGH) / peak;
  const { accepted: slower } = await wrk({ ...load, pause: Math.round(cycle) });
  const paced = { ...load, pause: Math.round(2 * cycle - (1_000 * ENOUGH) / slower) };
  const misbehaving = new Stream(service.origin, 50, (n) => kinds(key)[n % 3]!);
  const timers = [
    setInterval(() => void readNothing(service), 10_000),
    setInterval(() => void sample(), 2_000),
  ];
  const since = performance.now();
  const rounds: Result[] = [];
  while (performance.now() < since + count.minutes * 60_000) {
    rounds.push(await wrk({ ...paced, seconds: 20 }));
  }
  timers.forEach(clearInterval);
  const answers = await misbehaving.stop();
  const wrong = answers.filter(({ status, question }) => String(status) !== question.kind);
  const took = performance.now() - since;
  const perSecond = total(rounds, 'accepted') / rounds.length;
  const heldBefore = (end: number, i: number) =>
    samples
      .filter(({ at }) => at < since + end && at > since + end - took / 12)
      .map(({ held }) => held[i]!);
  note(
    `${count.minutes} minutes of lists, gets and creates, while others misbehave`,
    ['requests per second', perSecond],
    ['share of the peak', (perSecond / peak) * 100, '', '%'],
    ['requests that were rejected', total(rounds, 'refused'), '= 0'],
    ['requests without a response within 5 s', total(rounds, 'unanswered'), '= 0'],
    ['wrong keys, large bodies, and lists on new connections', answers.length],
    ['of them with another status than 401, 413 and 200', wrong.length, '= 0'],
    ...HELD.map(([name, counts], i): Figure => {
      const [before, after] = [took / 6, took].map((end) => quantile(heldBefore(end, i), counts));
      return [`growth of ${name}`, (after! / before! - 1) * 100, `≤ ${MOST_GROWTH}`, '%'];
    }),
  );
  await service.kill();
}

/** On a new connection each: a stranger, a body over the limit, and a client that comes for one list. */
const kinds = (key: string) => [
  { path: '/v1/pets', key: 'wrong', agent: false, kind: '401' } as const,
  { ...create(key, 'x'.repeat(100_000)), agent: false, kind: '413' } as const,
  { path: '/v1/pets?limit=1', key, agent: false, kind: '200' } as const,
];

async function readNothing(service: Service): Promise<void> {
  const [socket] = await open(service, 1);
  socket!.write(ASSETS);
  setTimeout(() => socket!.destroy(), 60_000).unref();
}
