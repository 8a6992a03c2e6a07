/** Many more clients than can be served. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Program } from '../support/program.js';
import { type Answer, isServed, longest, most, p99, type Question, Stream } from './clients.js';
import { note, skip } from './report.js';
import { fill, type Run, Service } from './service.js';

const SCRIPTS = fileURLToPath(new URL('.', import.meta.url));

/** Connections that carry as much as the service can. */
const ENOUGH = 64;

/** Percent of the peak. */
const LEAST_SHARE = 80;

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
  await fill(postgres.url, 1_000);
  const service = await Service.start(postgres.url);
  const spared = await Service.start(postgres.url);
  const peak: Load = { service, key, kind: 'lists', connections: ENOUGH, seconds: 3 };
  // Warms them up.
  await wrk(peak);
  await wrk({ ...peak, service: spared });
  for (const [kind, connections] of [
    ['lists', 10 * ENOUGH],
    ['creates', 10 * ENOUGH],
    ...[2_000, 5_000, 8_000].map((many) => ['lists', many] as const),
  ] as const) {
    await crowd({ ...peak, kind }, spared, connections);
  }
  await Promise.all([service.kill(), spared.kill()]);
}

/** @param spared has no load; this one's peak is compared with that one's afterwards. */
async function crowd(peak: Load, spared: Service, connections: number): Promise<void> {
  const isServable = connections <= 10 * ENOUGH;
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
      const found = await wrk({ ...peak, seconds: isServable ? 3 : 6, connections });
      answers.push(...(await clients.stop()));
      lives.push(...(await live.stop()));
      return found;
    },
  );
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
    ['requests rejected per second', worst('refused')],
    ['p99 of 50 new clients per second', p99(served), limit('≤ 1,000'), 'ms'],
    ['share of them rejected', (1 - served.length / answers.length) * 100, limit('≤ 50'), '%'],
    ['longest response of /health/live', longest(lives), '', 'ms'],
    ['memory', await peak.service.memory('VmHWM'), '≤ 512', 'MiB'],
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

export async function wrk(load: Load): Promise<Result> {
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
    accepted: (requests - refused) / took,
    refused: Math.round(refused / took),
    unanswered: errors.reduce((sum, each) => sum + Number(each), 0),
    p99: Number(digits) * { us: 0.001, ms: 1, s: 1000 }[unit as 'us' | 'ms' | 's'],
  };
}
