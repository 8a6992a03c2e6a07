/** Many more clients than can be served. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { most, percentile, Stream } from './clients.js';
import { endsWithThis, Service } from './processes.js';
import { note, skip } from './report.js';

const PROMISE = 'At ten times the load that it can carry the service does as much, and in time';
const BEYOND = 'Far beyond that it refuses what it cannot take, keeps its memory, and recovers';
const LOADS = fileURLToPath(new URL('loads.lua', import.meta.url));

/** Connections that carry as much as the service can. */
const ENOUGH = 64;

/** Percent of the peak. */
const LEAST_SHARE = 80;

const MOST_MEMORY = 512;

const KINDS = { list: 'lists', create: 'creates', both: 'nine lists to a create' };

/** @param {{ postgres: import('./postgres.js').Postgres }} run */
export async function overload({ postgres }) {
  if (!(await isInstalled())) {
    skip(PROMISE, 'wrk with many connections', 'wrk is not installed');
    return;
  }
  await postgres.query('truncate pets cascade');
  await postgres.query(
    `insert into pets (name, category_id) select 'animal ' || n, n from generate_series(1, 1000) as n`,
  );
  const service = await Service.start(postgres.url);
  const spared = await Service.start(postgres.url);
  const run = { service, key: postgres.key, seconds: 3, rounds: 5 };
  try {
    // Warms them up.
    for (const each of [service, spared]) {
      await wrk({ ...run, service: each, kind: 'both', connections: ENOUGH });
    }
    for (const kind of Object.keys(KINDS)) {
      await tenTimes(run, kind);
    }
    for (const connections of [2_000, 5_000]) {
      await farBeyond(run, spared, `${connections} connections`, { connections });
    }
    const refused = { atLeast: 1 };
    await farBeyond(run, spared, '8000 connections', { connections: 8_000 }, { refused });
    const inTime = { atMost: 1_000 };
    await farBeyond(
      run,
      spared,
      '1000 connections, each with 20 requests at a time',
      { connections: 1_000, pipelined: 20 },
      { refused: { is: 0 }, newcomers: inTime, live: inTime },
    );
  } finally {
    await Promise.all([service, spared].map((each) => each.end('SIGKILL')));
  }
}

async function tenTimes(run, kind) {
  const answers = [];
  const [peaks, crowds] = await inTurns(
    run.rounds,
    () => wrk({ ...run, kind, connections: ENOUGH }),
    async () => {
      const clients = newcomers(run);
      const found = await wrk({ ...run, kind, connections: 10 * ENOUGH });
      answers.push(...(await clients.stop()));
      return found;
    },
  );
  const served = answers.filter(({ status }) => status === 200);
  note(
    PROMISE,
    `${10 * ENOUGH} connections ask for ${KINDS[kind]} without pause; ${ENOUGH} reach the peak`,
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
        value: await run.service.memory('VmHWM'),
        unit: ' MiB',
        atMost: MOST_MEMORY,
      },
    ],
  );
}

/** @param spared a service that is spared the load, with which the one that bears it is compared afterwards. */
async function farBeyond(run, spared, done, load, bounds = {}) {
  const enough = { ...run, kind: 'list', connections: ENOUGH };
  const peak = await wrk(enough);
  const clients = newcomers(run);
  const live = new Stream(run.service.origin, 100, () => ({ path: '/health/live' }));
  const found = await wrk({ ...run, kind: 'list', seconds: 6, ...load });
  const answers = await clients.stop();
  const lives = await live.stop();
  const [afterwards, unharmed] = await inTurns(
    2,
    () => wrk(enough),
    () => wrk({ ...enough, service: spared }),
  );
  note(BEYOND, `${done} ask for lists without pause`, [
    { name: 'unanswered within 5 s', value: found.unanswered },
    { name: 'accepted, of the peak', value: (found.accepted / peak.accepted) * 100, unit: ' %' },
    { name: 'refused', value: found.refused, unit: '/s', ...bounds.refused },
    {
      name: 'p99 of 50 new clients a second',
      value: p99(answers),
      unit: ' ms',
      ...bounds.newcomers,
    },
    {
      name: 'live',
      value: most(lives.map(({ status, ms }) => (status === 200 ? ms : Infinity))),
      unit: ' ms',
      ...bounds.live,
    },
    { name: 'memory', value: await run.service.memory('VmHWM'), unit: ' MiB', atMost: MOST_MEMORY },
    {
      name: 'afterwards, of what one does that was spared',
      value: (accepted(afterwards) / accepted(unharmed)) * 100,
      unit: ' %',
      atLeast: LEAST_SHARE,
    },
  ]);
}

/** The machine's speed varies, so what is to be compared is measured in turns. @returns the results of each load. */
async function inTurns(rounds, ...loads) {
  /** @type {any[][]} */
  const results = loads.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (const [i, load] of loads.entries()) {
      results[i].push(await load());
    }
  }
  return results;
}

const accepted = (results) => results.reduce((sum, result) => sum + result.accepted, 0);

/** Clients that come at their own pace, each on a connection of its own, whatever the service does. */
function newcomers({ service, key }) {
  return new Stream(service.origin, 20, () => ({ path: '/v1/pets', key, agent: false }));
}

const p99 = (answers) =>
  percentile(
    answers.map(({ ms }) => ms),
    0.99,
  );

async function wrk({ kind, connections, seconds, pipelined = 1, service, key }) {
  const running = promisify(execFile)('wrk', [
    '-t1',
    `-c${connections}`,
    `-d${seconds}s`,
    '--latency',
    '--timeout=5s',
    `--script=${LOADS}`,
    `--header=Authorization: Bearer ${key}`,
    service.origin,
    '--',
    kind,
    String(pipelined),
  ]);
  endsWithThis(running.child);
  const { stdout } = await running;
  const count = (pattern) => Number(pattern.exec(stdout)?.[1] ?? 0);
  const requests = count(/(\d+) requests in/);
  const refused = count(/Non-2xx or 3xx responses: (\d+)/);
  const errors = [
    ...(/Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(stdout) ?? []),
  ];
  const took = requests / Number(/Requests\/sec: +([\d.]+)/.exec(stdout)?.[1]);
  const [, digits, unit = ''] = /^ +99% +([\d.]+)(us|ms|s) *$/m.exec(stdout) ?? [];
  return {
    accepted: (requests - refused) / took,
    refused: Math.round(refused / took),
    unanswered: errors.slice(1).reduce((sum, each) => sum + Number(each), 0),
    p99: Number(digits) * { us: 0.001, ms: 1, s: 1000 }[unit],
  };
}

async function isInstalled() {
  // It prints its version and leaves with 1.
  const { code } = await promisify(execFile)('wrk', ['--version']).catch((error) => error);
  return code !== 'ENOENT';
}
