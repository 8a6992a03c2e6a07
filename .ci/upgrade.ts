/**
 * `.ci/upgrade.ts COMMIT` upgrades from the release of a commit to this version and back, as docs/dba.md says, while requests arrive through
 * deploy/haproxy.cfg: no request fails, and no acknowledged pet is lost. Twins, with one Idempotency-Key, arrive at both
 * processes at once, whatever their versions: each key creates one pet. The exit code is 1 otherwise.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../src/config/project-root.js';
import { freePort } from '../scripts/free-port.mjs';
import { ask as askDatabase, query } from '../test/support/ask.js';
import { Postgres } from '../test/support/postgres.js';
import { PATH, Program } from '../test/support/program.js';
import { until } from '../test/support/until.js';
import { ask, create, isServed, most, p99, Stream } from '../test/faults/clients.js';

const [, , release] = process.argv;
const folder = await mkdtemp(join(tmpdir(), 'animal-store-upgrade-'));
const inShell = (command: string, cwd: string, env: NodeJS.ProcessEnv = {}) =>
  execFileSync('bash', ['-euo', 'pipefail', '-c', command], {
    cwd,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });

const old = join(folder, 'old');
console.error(`Builds ${release}…`);
inShell(
  `mkdir old && git -C '${PROJECT_ROOT}' archive ${release} | tar -x -C old && cd old && npm ci --silent && npm run --silent build`,
  folder,
  // That version has packages that warn on Node 20.
  { npm_config_engine_strict: 'false' },
);

const postgres = await Postgres.start(['fsync=on']);
const ports = [await freePort(), await freePort()] as const;
const env = { PATH, NODE_ENV: 'production', DATABASE_URL: postgres.url };

/** Starts a process of the service, and waits until it is ready. */
async function serve(cwd: string, port: number): Promise<Program> {
  const program = Program.start('npm', ['run', '--silent', 'start:prod'], {
    cwd,
    env: { ...env, HOST: '127.0.0.1', PORT: String(port), DRAIN_SECONDS: '2' },
    isQuiet: true,
  });
  await until('the service is ready', async () => {
    if (program.hasEnded) {
      throw new Error(`The service did not start: ${program.stderr}`);
    }
    return fetch(`http://127.0.0.1:${port}/health/ready`).then(({ ok }) => ok, () => false); // prettier-ignore
  });
  return program;
}

inShell('npm run --silent migration:run', old, env);
const key = inShell('npm run --silent keys -- create --name upgrade', old, env).trim();
const processes = [await serve(old, ports[0]), await serve(old, ports[1])];
const listen = await freePort();
const proxy = Program.start('haproxy', ['-f', join(PROJECT_ROOT, 'deploy/haproxy.cfg'), '-db'], {
  env: {
    PATH,
    LISTEN: `127.0.0.1:${listen}`,
    PROCESS_1: `127.0.0.1:${ports[0]}`,
    PROCESS_2: `127.0.0.1:${ports[1]}`,
  },
  isQuiet: true,
});
const origin = `http://127.0.0.1:${listen}`;
await until(
  'the proxy serves',
  () =>
  fetch(`${origin}/health/ready`).then(({ ok }) => ok, () => false), // prettier-ignore
);

const stream = new Stream(origin, 15, (n) =>
  n % 3 === 0
    ? { ...create(key, `pet ${n}`, n % 2 === 0 ? `key-${n}` : undefined), kind: 'create' }
    : { method: 'GET', path: n % 3 === 1 ? '/v1/pets?limit=20' : '/v1/store/orders', key },
);
const requests = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** Replaces the processes one at a time. The proxy looks at their readiness every half second. */
async function restartWith(cwd: string): Promise<void> {
  for (const [i, program] of processes.entries()) {
    await program.end('SIGTERM');
    processes[i] = await serve(cwd, ports[i]!);
    await requests(1.5);
  }
}

/** The ids that twins got: requests with one Idempotency-Key, sent to both processes at once until each is served. */
const idsOfTwins: Set<string>[] = [];
let isOver = false;
async function sendTwins(): Promise<void> {
  while (!isOver) {
    const twin = create(key, 'twin', `twin-${idsOfTwins.length}`);
    const ids = new Set<string>();
    idsOfTwins.push(ids);
    const sendUntilServed = async (port: number) => {
      for (;;) {
        const answer = await ask(`http://127.0.0.1:${port}`, twin);
        if (isServed(answer)) {
          return ids.add(JSON.parse(answer.text!).id);
        }
        if (![undefined, 409, 503].includes(answer.status)) {
          return ids.add(`${answer.status} ${answer.text}`);
        }
        await requests(0.1);
      }
    };
    await Promise.all(ports.map(sendUntilServed));
  }
}
const twins = sendTwins();

const steps: [string, () => unknown][] = [
  ['the migrations are applied', () => inShellLater('npm run --silent migration:run')],
  ['the processes get this version', () => restartWith(PROJECT_ROOT)],
  ['the processes get the release', () => restartWith(old)],
  ['the migrations are reverted', () => revertAll()],
];
const inShellLater = (command: string) =>
  Program.start('bash', ['-c', command], { cwd: PROJECT_ROOT, env: { ...process.env, ...env } })
    .outcome;
const latest = `select coalesce(max(timestamp), 0)::text as timestamp from migrations`;
const before = (await askDatabase(postgres.url, latest))['timestamp'];
async function revertAll(): Promise<void> {
  while ((await askDatabase(postgres.url, latest))['timestamp'] !== before) {
    const { code, stderr } = await inShellLater('npm run --silent migration:revert -- --yes');
    if (code !== 0) {
      throw new Error(stderr);
    }
  }
}

try {
  await requests(1);
  for (const [what, step] of steps) {
    console.error(`While requests arrive, ${what}…`);
    await step();
    await requests(1);
  }
  const answers = await stream.stop();
  isOver = true;
  await twins;
  const [{ count: twinPets }] = await query(
    postgres.url,
    `select count(*)::int from pets where name = 'twin'`,
  );
  const doubled = idsOfTwins.filter(({ size }) => size !== 1).length + twinPets - idsOfTwins.length;
  const failed = answers.filter((answer) => !isServed(answer));
  const created = answers
    .filter(({ status }) => status === 201)
    .map(({ text }) => JSON.parse(text!));
  const stored = new Map(
    (await query(postgres.url, `select id, name from pets where name <> 'twin'`)).map(
      ({ id, name }) => [`${id}`, name],
    ),
  );
  const lost = created.filter(({ id, name }) => stored.get(`${id}`) !== name);
  console.log(
    `${release} to this version and back: ${answers.length} requests, ${failed.length} failed; ` +
      `${created.length} pets acknowledged, ${lost.length} lost, ${stored.size - created.length} besides; ` +
      `${idsOfTwins.length} twins, ${doubled} doubled; ` +
      `longest response ${most(answers.map(({ ms }) => ms))} ms, p99 ${p99(answers)} ms.`,
  );
  for (const { status, text, question } of failed.slice(0, 5)) {
    console.log(question.method, question.path, status ?? 'no response', text ?? '');
  }
  process.exitCode =
    failed.length + lost.length + doubled === 0 && idsOfTwins.length > 50 && answers.length > 500
      ? 0
      : 1;
} finally {
  await Promise.all([...processes, proxy].map((program) => program.end('SIGTERM')));
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}
