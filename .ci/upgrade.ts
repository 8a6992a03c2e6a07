/**
 * `.ci/upgrade.ts COMMIT` upgrades from the release of a commit to this version and back, as docs/dba.md says, while requests
 * arrive through deploy/haproxy.cfg: no request fails, no acknowledged pet is lost, and none is stored twice. Twins, with one
 * Idempotency-Key, arrive at both processes at once, whatever their versions: each key creates one pet. The exit code is 1
 * otherwise.
 *
 * On a machine whose CPUs are busy, the database exceeds the service's time limits, of 1 to 1.75 seconds, now and then: such a
 * request gets 503 `unavailable`. Its client sends it again, as docs/guides/retries.md says, unless it is a create without an
 * Idempotency-Key. At most 1 in {@link SHARE} requests may need this: an upgrade that makes the database unavailable, such as
 * by a lock, affects more. haproxy's own 503 has the same code, but means that no process could be reached: it is a failure.
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
import {
  type Answer,
  ask,
  create,
  isServed,
  most,
  p99,
  type Question,
  Stream,
} from '../test/faults/clients.js';

/** Of so many requests, one may get 503 because the database exceeds a time limit. */
const SHARE = 500;

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

/** Responses of requests for which the database took too long. */
const unavailable: (Answer & { question: Question })[] = [];

/** Whether the service says that its database took too long. haproxy speaks of the service in place of the database. */
const lacksDatabase = ({ status, text, headers }: Answer) =>
  status === 503 &&
  headers?.['retry-after'] !== undefined &&
  text!.startsWith('{"code":"unavailable","message":"The database ');

const mayRepeat = ({ method, headers }: Question) =>
  method === 'GET' || headers?.['Idempotency-Key'] !== undefined;

/** Sends a request as docs/guides/retries.md says. @returns the last response. */
async function askAgain(origin: string, question: Question): Promise<Answer> {
  const end = performance.now() + 30_000;
  let answer = await ask(origin, question);
  if (!lacksDatabase(answer)) {
    return answer;
  }
  unavailable.push({ ...answer, question });
  // The attempt before may still be in progress.
  const isRepeated = () =>
    lacksDatabase(answer) ||
    (answer.status === 409 && answer.text!.includes('"idempotency_key_in_use"'));
  for (
    let backoff = 0.5;
    mayRepeat(question) && isRepeated() && performance.now() < end;
    backoff = Math.min(2 * backoff, 5)
  ) {
    const retryAfter = Number(answer.headers!['retry-after'] ?? 0);
    await requests(Math.max(retryAfter, backoff) + Math.random() * backoff);
    answer = await ask(origin, question);
  }
  return answer;
}

const requests = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const stream = new Stream(
  origin,
  15,
  (n) =>
    n % 3 === 0
      ? { ...create(key, `pet ${n}`, n % 2 === 0 ? `key-${n}` : undefined), kind: 'create' }
      : { method: 'GET', path: n % 3 === 1 ? '/v1/pets?limit=20' : '/v1/store/orders', key },
  askAgain,
);

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
  const doubled = idsOfTwins.filter((ids) => ids.size !== 1 || !/^\d+$/.test([...ids][0]!)).length;
  // A create that may not be repeated is not served. It counts as one for which the database took too long.
  const failed = answers.filter(
    (answer) => !isServed(answer) && (mayRepeat(answer.question) || !lacksDatabase(answer)),
  );
  const created = answers
    .filter(({ status }) => status === 201)
    .map(({ text }) => JSON.parse(text!));
  const pets = await query(postgres.url, `select id, name from pets where name <> 'twin'`);
  const stored = new Map(pets.map(({ id, name }) => [`${id}`, name]));
  const lost = created.filter(({ id, name }) => stored.get(`${id}`) !== name);
  const twice = pets.length - new Set(stored.values()).size;
  const most503 = Math.floor(answers.length / SHARE);
  console.log(
    `${release} to this version and back: ${answers.length} requests, ${failed.length} failed; ` +
      `for ${unavailable.length} the database took too long (at most ${most503}); ` +
      `${created.length} pets acknowledged, ${lost.length} lost, ${twice} stored twice, ${pets.length - created.length} besides; ` +
      `${idsOfTwins.length} twins, ${doubled} without their one pet, ${twinPets - idsOfTwins.length} besides; ` +
      `longest response ${most(answers.map(({ ms }) => ms))} ms, p99 ${p99(answers)} ms.`,
  );
  for (const { status, text, question, at, ms } of [...failed, ...unavailable].slice(0, 20)) {
    const when = new Date(performance.timeOrigin + at).toISOString();
    const what = [question.method, question.path, status ?? 'no response', text ?? ''];
    console.log(when, ...what, `after ${Math.round(ms)} ms`);
  }
  const isGood =
    [failed.length, lost.length, twice, doubled, twinPets - idsOfTwins.length].every(
      (n) => n === 0,
    ) && unavailable.length <= most503;
  process.exitCode = isGood && idsOfTwins.length > 50 && answers.length > 500 ? 0 : 1;
} finally {
  await Promise.all([...processes, proxy].map((program) => program.end('SIGTERM')));
  await postgres.stop();
  await rm(folder, { recursive: true, force: true });
}
