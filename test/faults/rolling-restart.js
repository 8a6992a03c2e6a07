/** Two instances behind haproxy, restarted one after the other under load: no client notices. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { animal, ask, until } from './clients.js';
import { freePort } from '../../scripts/free-port.mjs';
import { endsWithThis, Service } from './processes.js';
import { note, skip } from './report.js';

const PROMISE = 'A rolling restart fails no request';
const CLIENTS = 24;

/** As many seconds as haproxy asks fifteen times in: on a busy machine it is late. */
const DRAIN_SECONDS = '3';

/**
 * What haproxy is told of the instances. Without a check it goes on connecting until it is refused, and Linux resets a
 * connection that comes in the microseconds before listening ends: docs/reliability.md has how often.
 */
const WAYS = {
  'which asks for readiness': 'check inter 200ms fall 1 rise 1',
  'which asks nothing': '',
};

/** @param {{ postgres: import('./postgres.js').Postgres, folder: string, isShort: boolean }} run */
export async function rollingRestart({ postgres, folder, isShort }) {
  const program = findHaproxy();
  for (const [way, check] of Object.entries(WAYS)) {
    if (isShort && check === '') {
      // Whether that fails a request is a matter of chance.
      continue;
    }
    const done = `${isShort ? 2 : 6} restarts of two instances, in turns, behind haproxy ${way}`;
    if (program === undefined) {
      skip(PROMISE, done, 'haproxy is not installed');
      continue;
    }
    const rounds = isShort ? 1 : 3;
    const answers = await restartInTurns({ postgres, folder, program, check, rounds });
    const failed = answers.filter((status) => status !== 200 && status !== 201);
    note(PROMISE, `${done}, under ${CLIENTS} clients that list and create without pause`, [
      { name: 'requests', value: answers.length, atLeast: 1_000, isTimed: true },
      {
        name: `failed${failed.length > 0 ? ` with ${[...new Set(failed)].join()}` : ''}`,
        value: failed.length,
        is: 0,
      },
    ]);
  }
}

/** @returns the statuses of all answers. */
async function restartInTurns({ postgres, folder, program, check, rounds }) {
  const variables = { DRAIN_SECONDS };
  const services = [
    await Service.start(postgres.url, variables),
    await Service.start(postgres.url, variables),
  ];
  const port = await freePort();
  const haproxy = await startHaproxy(program, folder, port, services, check);
  const origin = `http://127.0.0.1:${port}`;
  const end = new AbortController();
  const answers = [];
  let clients = [];
  try {
    await until(async () => (await ask(origin, { path: '/health/live' })).status === 200, 5_000);
    clients = Array.from({ length: CLIENTS }, (_, n) =>
      load(origin, postgres.key, n, answers, end.signal),
    );
    await wait(500);
    for (let i = 0; i < rounds * services.length; i += 1) {
      const one = i % services.length;
      await services[one].end('SIGTERM');
      services[one] = await services[one].restart();
      await until(
        async () => (await ask(services[one].origin, { path: '/health/ready' })).status === 200,
        10_000,
      );
      // haproxy has to notice that it is back.
      await wait(600);
    }
    end.abort();
    await Promise.all(clients);
    return answers;
  } finally {
    end.abort();
    haproxy.kill('SIGKILL');
    await Promise.all(services.map((service) => service.end('SIGKILL')));
  }
}

/** Half of the clients keep their connections, half open one for each request. */
async function load(origin, key, n, answers, signal) {
  const agent = new Agent({ keepAlive: n % 2 === 0, maxSockets: 1 });
  for (let i = 0; !signal.aborted; i += 1) {
    const { status } = await ask(origin, {
      agent,
      key,
      path: '/v1/pets',
      ...(i % 2 === 0 && { method: 'POST', body: animal(`rolling ${n} ${i}`) }),
    });
    answers.push(status);
    await wait(2);
  }
  agent.destroy();
}

async function startHaproxy(program, folder, port, services, check) {
  const file = join(folder, `haproxy-${port}.cfg`);
  await writeFile(
    file,
    [
      'global',
      '  maxconn 1000',
      'defaults',
      '  mode http',
      '  timeout connect 2s',
      '  timeout client 30s',
      '  timeout server 30s',
      '  retries 3',
      // A request that another instance can take is sent there.
      '  option redispatch 1',
      '  retry-on conn-failure',
      'frontend clients',
      `  bind 127.0.0.1:${port}`,
      '  default_backend instances',
      'backend instances',
      '  balance roundrobin',
      '  option httpchk GET /health/ready',
      '  http-check expect status 200',
      ...services.map(({ port }, i) => `  server instance${i} 127.0.0.1:${port} ${check}`),
      '',
    ].join('\n'),
  );
  const haproxy = endsWithThis(spawn(program, ['-f', file, '-db'], { stdio: 'ignore' }));
  await once(haproxy, 'spawn');
  return haproxy;
}

function findHaproxy() {
  return ['haproxy', '/usr/sbin/haproxy', '/usr/local/sbin/haproxy'].find((program) => {
    try {
      execFileSync(program, ['-v'], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  });
}
