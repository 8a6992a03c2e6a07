/** Many more clients than can be served. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { query } from '../support/ask.js';
import { Program } from '../support/program.js';
import { type Answer, most, percentile, Stream } from './clients.js';
import { type Measure, note, skip } from './report.js';
import { type Run, Service } from './service.js';

const PROMISE = 'At ten times the load that it can carry the service does as much, and in time';
const BEYOND = 'Far beyond that it refuses what it cannot take, keeps its memory, and recovers';
const LOADS = fileURLToPath(new URL('loads.lua', import.meta.url));

/** Connections that carry as much as the service can. */
const ENOUGH = 64;

/** Percent of the peak. */
const LEAST_SHARE = 80;

/** MiB. */
const MOST_MEMORY = 512;

const KINDS = { list: 'lists', create: 'creates', both: 'nine lists to a create' };

interface Load {
  service: Service;
  key: string;
  kind: keyof typeof KINDS;
  connections: number;
  seconds: number;
  /** How many requests each connection sends at a time. */
  pipelined?: number;
}

interface Result {
  /** Requests per second. */
  accepted: number;
  refused: number;
  unanswered: number;
  /** Milliseconds. */
  p99: number;
}

export async function overload({ postgres, key }: Run): Promise<void> {
  if (spawnSync('wrk', ['--version']).error !== undefined) {
    skip(PROMISE, 'wrk with many connections', 'wrk is not installed');
    return;
  }
  await query(
    postgres.url,
    'truncate pets cascade',
    `insert into pets (name, category_id) select 'animal ' || n, n from generate_series(1, 1000) as n`,
  );
  const service = await Service.start(postgres.url);
  const spared = await Service.start(postgres.url);
  const peak: Load = { service, key, kind: 'both', connections: ENOUGH, seconds: 3 };
  const sparedPeak: Load = { ...peak, service: spared };
  try {
    // Warms them up.
    await wrk(peak);
    await wrk(sparedPeak);
    for (const kind of Object.keys(KINDS) as Load['kind'][]) {
      await tenTimes({ ...peak, kind });
    }
    const far: [string, Partial<Load>, Record<string, Partial<Measure>>][] = [
      ['2000 connections', { connections: 2_000 }, {}],
      ['5000 connections', { connections: 5_000 }, {}],
      ['8000 connections', { connections: 8_000 }, { refused: { atLeast: 1 } }],
    ];
    for (const [done, load, bounds] of far) {
      await farBeyond(
        { ...peak, kind: 'list' },
        { ...sparedPeak, kind: 'list' },
        done,
        load,
        bounds,
      );
    }
  } finally {
    await Promise.all([service.kill(), spared.kill()]);
  }
}

async function tenTimes(peak: Load): Promise<void> {
  const answers: Answer[] = [];
  const [peaks, crowds] = (await inTurns(
    5,
    () => wrk(peak),
    async () => {
      const clients = newClients(peak);
      const found = await wrk({ ...peak, connections: 10 * ENOUGH });
      answers.push(...(await clients.stop()));
      return found;
    },
  )) as [Result[], Result[]];
  const served = answers.filter(({ status }) => status === 200);
  note(
    PROMISE,
    `${10 * ENOUGH} connections ask for ${KINDS[peak.kind]} without pause; ${ENOUGH} reach the peak`,
    [
      {
        name: 'accepted, of the peak',
        value: (accepted(crowds) / accepted(peaks)) * 100,
        unit: ' %',
        atLeast: LEAST_SHARE,
      },
      { name: 'p99', value: most(crowds.map(({ p99 }) => p99)), unit: ' ms', atMost: 1_000 },
      { name: 'unanswered', value: most(crowds.map(({ unanswered }) => unanswered)), is: 0 },
      { name: 'p99 of 50 new clients a second', value: p99(served), unit: ' ms', atMost: 1_000 },
      {
        name: 'of them refused',
        value: answers.length - served.length,
        atMost: answers.length / 2,
      },
      {
        name: 'memory',
        value: await peak.service.memory('VmHWM'),
        unit: ' MiB',
        atMost: MOST_MEMORY,
      },
    ],
  );
}

/** @param spared the peak of a service that is spared the load, with which the one that bears it is compared afterwards. */
async function farBeyond(
  peak: Load,
  spared: Load,
  done: string,
  load: Partial<Load>,
  bounds: Record<string, Partial<Measure>>,
): Promise<void> {
  const before = await wrk(peak);
  const clients = newClients(peak);
  const live = new Stream(peak.service.origin, 100, () => ({ path: '/health/live' }));
  const found = await wrk({ ...peak, seconds: 6, ...load });
  const answers = await clients.stop();
  const lives = await live.stop();
  const [afterwards, unharmed] = (await inTurns(
    2,
    () => wrk(peak),
    () => wrk(spared),
  )) as [Result[], Result[]];
  note(BEYOND, `${done} ask for lists without pause`, [
    { name: 'unanswered within 5 s', value: found.unanswered },
    { name: 'accepted, of the peak', value: (found.accepted / before.accepted) * 100, unit: ' %' },
    { name: 'refused', value: found.refused, unit: '/s', ...bounds['refused'] },
    { name: 'p99 of 50 new clients a second', value: p99(answers), unit: ' ms' },
    {
      name: 'live',
      value: most(lives.map(({ status, ms }) => (status === 200 ? ms : Infinity))),
      unit: ' ms',
    },
    {
      name: 'memory',
      value: await peak.service.memory('VmHWM'),
      unit: ' MiB',
      atMost: MOST_MEMORY,
    },
    {
      name: 'afterwards, of what one does that was spared',
      value: (accepted(afterwards) / accepted(unharmed)) * 100,
      unit: ' %',
      atLeast: LEAST_SHARE,
    },
  ]);
}

/** The machine's speed varies, so what is to be compared is measured in turns. @returns the results of each load. */
async function inTurns(rounds: number, ...loads: (() => Promise<Result>)[]): Promise<Result[][]> {
  const results: Result[][] = loads.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [i, load] of loads.entries()) {
      results[i]!.push(await load());
    }
  }
  return results;
}

const accepted = (results: Result[]) => results.reduce((sum, result) => sum + result.accepted, 0);

/** Clients that come at their own pace, each on a connection of its own, whatever the service does. */
function newClients({ service, key }: Load): Stream {
  return new Stream(service.origin, 20, () => ({ path: '/v1/pets', key, agent: false }));
}

const p99 = (answers: Answer[]) =>
  percentile(
    answers.map(({ ms }) => ms),
    0.99,
  );

async function wrk({ kind, connections, seconds, service, key }: Load): Promise<Result> {
  const { stdout } = await Program.start(
    'wrk',
    [
      ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '--timeout=5s'],
      [`--script=${LOADS}`, `--header=Authorization: Bearer ${key}`, service.origin, '--', kind],
    ].flat(),
  ).outcome;
  const count = (pattern: RegExp) => Number(pattern.exec(stdout)?.[1] ?? 0);
  const requests = count(/(\d+) requests in/);
  const refused = count(/Non-2xx or 3xx responses: (\d+)/);
  const errors = [
    ...(/Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(stdout) ?? []),
  ];
  const took = requests / count(/Requests\/sec: +([\d.]+)/);
  const [, digits, unit] = /^ +99% +([\d.]+)(us|ms|s) *$/m.exec(stdout) ?? [];
  return {
    accepted: (requests - refused) / took,
    refused: Math.round(refused / took),
    unanswered: errors.slice(1).reduce((sum, each) => sum + Number(each), 0),
    p99: Number(digits) * { us: 0.001, ms: 1, s: 1000 }[unit as 'us' | 'ms' | 's'],
  };
}
