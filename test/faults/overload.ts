/** Many more clients than can be served. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { query } from '../support/ask.js';
import { Program } from '../support/program.js';
import { type Answer, isServed, most, p99, Stream } from './clients.js';
import { note, skip } from './report.js';
import { type Run, Service } from './service.js';

const SCRIPTS = fileURLToPath(new URL('.', import.meta.url));

/** Connections that carry as much as the service can. */
const ENOUGH = 64;

/** Percent of the peak. */
const LEAST_SHARE = 80;

/** MiB. */
const MOST_MEMORY = 512;

export interface Load {
  service: Service;
  key: string;
  /** `creates` and `soak` are scripts. */
  kind: 'lists' | 'creates' | 'soak';
  /** Milliseconds before each request of a connection; the script `soak` observes it. */
  pause?: number;
  connections: number;
  seconds: number;
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
    return skip('overload', 'wrk is not installed');
  }
  await query(
    postgres.url,
    'truncate pets cascade',
    `insert into pets (name, category_id) select 'pet ' || n, n from generate_series(1, 1000) as n`,
  );
  const service = await Service.start(postgres.url);
  const spared = await Service.start(postgres.url);
  const peak: Load = { service, key, kind: 'lists', connections: ENOUGH, seconds: 3 };
  try {
    // Warms them up.
    await wrk(peak);
    await wrk({ ...peak, service: spared });
    await tenTimes(peak);
    await tenTimes({ ...peak, kind: 'creates' });
    for (const connections of [2_000, 5_000, 8_000]) {
      await farBeyond(peak, { ...peak, service: spared }, connections);
    }
  } finally {
    await Promise.all([service.kill(), spared.kill()]);
  }
}

async function tenTimes(peak: Load): Promise<void> {
  const answers: Answer[] = [];
  const [peaks, crowds] = await inTurns(
    5,
    () => wrk(peak),
    async () => {
      const clients = newClients(peak);
      const found = await wrk({ ...peak, connections: 10 * ENOUGH });
      answers.push(...(await clients.stop()));
      return found;
    },
  );
  const served = answers.filter(isServed);
  const refused = answers.length - served.length;
  note(
    `${10 * ENOUGH} connections send ${peak.kind} without pause; the peak needs ${ENOUGH}`,
    ['throughput in percent of the peak', share(crowds, peaks), `≥ ${LEAST_SHARE}`, '%'],
    ['p99', most(crowds.map((crowd) => crowd.p99)), '≤ 1,000', 'ms'],
    ['requests without a response', most(crowds.map(({ unanswered }) => unanswered)), '= 0'],
    ['p99 of 50 new clients per second', p99(served), '≤ 1,000', 'ms'],
    ['share of new clients rejected', (refused / answers.length) * 100, '≤ 50', '%'],
    ['memory', await peak.service.memory('VmHWM'), `≤ ${MOST_MEMORY}`, 'MiB'],
  );
}

/** @param spared the peak of a service that has no load, with which this one is compared afterwards. */
async function farBeyond(peak: Load, spared: Load, connections: number): Promise<void> {
  const before = await wrk(peak);
  const clients = newClients(peak);
  const live = new Stream(peak.service.origin, 100, () => ({ path: '/health/live' }));
  const found = await wrk({ ...peak, seconds: 6, connections });
  const answers = await clients.stop();
  const lives = await live.stop();
  const [afterwards, unharmed] = await inTurns(
    2,
    () => wrk(peak),
    () => wrk(spared),
  );
  const longest = most(lives.map(({ status, ms }) => (status === 200 ? ms : Infinity)));
  note(
    `${connections} connections send lists without pause`,
    ['requests without a response within 5 s', found.unanswered],
    ['throughput in percent of the peak', share([found], [before]), '', '%'],
    // Below 6,000 requests none needs to be rejected.
    ['requests rejected per second', found.refused, connections > 6_000 ? '≥ 1' : ''],
    ['p99 of 50 new clients per second', p99(answers), '', 'ms'],
    ['longest response of /health/live', longest, '', 'ms'],
    ['memory', await peak.service.memory('VmHWM'), `≤ ${MOST_MEMORY}`, 'MiB'],
    [
      'peak afterwards in percent of that of a service without overload',
      share(afterwards, unharmed),
      `≥ ${LEAST_SHARE}`,
      '%',
    ],
  );
}

type Measure = () => Promise<Result>;

/** The machine's speed varies, so what is to be compared is measured in turns. @returns the results of each. */
async function inTurns(rounds: number, one: Measure, other: Measure) {
  const results: [Result[], Result[]] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    results[0].push(await one());
    results[1].push(await other());
  }
  return results;
}

const accepted = (results: Result[]) => results.reduce((sum, result) => sum + result.accepted, 0);

/** In percent. */
const share = (results: Result[], of: Result[]) => (accepted(results) / accepted(of)) * 100;

/** Clients that come at their own pace, each on a connection of its own, whatever the service does. */
function newClients({ service, key }: Load): Stream {
  return new Stream(service.origin, 20, () => ({ path: '/v1/pets', key, agent: false }));
}

export async function wrk({
  kind,
  pause,
  connections,
  seconds,
  service,
  key,
}: Load): Promise<Result> {
  const script = kind === 'lists' ? [] : [`--script=${SCRIPTS}${kind}.lua`];
  const load = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '--timeout=5s', ...script];
  const header = `--header=Authorization: Bearer ${key}`;
  const program = Program.start('wrk', [
    ...load,
    header,
    `${service.origin}/v1/pets`,
    '--',
    `${pause ?? ''}`,
  ]);
  const { stdout } = await program.outcome;
  const count = (pattern: RegExp) => Number(pattern.exec(stdout)?.[1] ?? 0);
  const requests = count(/(\d+) requests in/);
  const refused = count(/Non-2xx or 3xx responses: (\d+)/);
  const errors = /Socket errors: (.+)/.exec(stdout)?.[1]?.match(/\d+/g) ?? [];
  const took = requests / count(/Requests\/sec: +([\d.]+)/);
  const [, digits, unit] = /^ +99% +([\d.]+)(us|ms|s) *$/m.exec(stdout) ?? [];
  return {
    accepted: (requests - refused) / took,
    refused: Math.round(refused / took),
    unanswered: errors.reduce((sum, each) => sum + Number(each), 0),
    p99: Number(digits) * { us: 0.001, ms: 1, s: 1000 }[unit as 'us' | 'ms' | 's'],
  };
}
