/** Starts and stops the service and its peers, and reads what their processes used. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../scripts/free-port.mjs';

/** What `npm run start:prod` gives to Node besides the file. */
const OPTIONS = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'))
  .scripts['start:prod'].split(' ')
  .slice(2, -1);

/**
 * What is measured, by name: the file that Node or Go runs, options of Node, and whether it serves the contract.
 *
 * @type {Record<string, { file: string, options?: string[], project?: string, isCeiling?: boolean }>}
 */
export const SERVERS = {
  service: { file: '../dist/src/main.js', options: OPTIONS },
  'node-http': { file: 'peers/node-http.js' },
  fastify: { file: 'peers/fastify.js' },
  express: { file: 'peers/express.js' },
  'nest-typeorm': { file: 'peers/nest-typeorm/dist/main.js', project: 'peers/nest-typeorm' },
  go: { file: 'peers/go/main.go' },
  constant: { file: 'peers/constant.js', isCeiling: true },
};

const START_TIMEOUT = 30_000;
const STOP_TIMEOUT = 10_000;

/**
 * Starts a server and returns once it answers. All run as in production, with 10 connections to the database and a
 * log of one line a request, which goes where the load generator's machine does not feel it: /dev/null.
 *
 * @param {string} name of {@link SERVERS}.
 */
export async function startServer(name, { databaseUrl, readUrl = '', key }) {
  const { file, options = [], project } = SERVERS[name];
  const binary = file.endsWith('.go') ? await buildGo(path(file)) : undefined;
  if (project !== undefined) {
    await promisify(execFile)('node', ['node_modules/typescript/bin/tsc', '-p', project], {
      cwd: path('.'),
    });
  }
  const port = await freePort();
  const [program, args] =
    binary === undefined ? [process.execPath, [...options, path(file)]] : [binary, []];
  const child = spawn(program, args, {
    cwd: path('.'),
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      DATABASE_URL: databaseUrl,
      DATABASE_READ_URL: readUrl,
      HOST: '127.0.0.1',
      PORT: String(port),
      // The defaults, whatever the project's .env says.
      DATABASE_POOL_SIZE: '10',
      LOG_LEVEL: 'info',
      PUBLIC_BASE_URL: '',
      RATE_LIMIT_PER_MINUTE: '',
      CORS_ORIGINS: '',
      TRUST_PROXY: '',
      DOCS: '',
      METRICS_PORT: '',
      MIGRATE_ON_START: '',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const server = { name, url: `http://127.0.0.1:${port}`, pid: child.pid, stop: () => stop(child) };
  try {
    await answering(server.url, key, child);
    return server;
  } catch (error) {
    await server.stop();
    throw new Error(`${name} did not start`, { cause: error });
  }
}

/** Debian's folder of Go packages, which `golang-github-jackc-pgx-v4-dev` puts pgx into. */
const GO_PATH = '/usr/share/gocode';

/** Whether Go and pgx are installed. */
export const HAS_GO = existsSync(join(GO_PATH, 'src/github.com/jackc/pgx/v4'));

/** @returns the path of the program that Go builds of `file`. It is deleted when this process ends. */
async function buildGo(file) {
  const folder = await mkdtemp(join(tmpdir(), 'animal-store-go-'));
  process.once('exit', () => rmSync(folder, { recursive: true }));
  const binary = join(folder, 'peer');
  await promisify(execFile)('go', ['build', '-o', binary, file], {
    env: {
      ...process.env,
      CGO_ENABLED: '0',
      GO111MODULE: 'off',
      GOPATH: GO_PATH,
      GOCACHE: join(folder, 'cache'),
    },
  });
  return binary;
}

async function answering(url, key, child) {
  const deadline = Date.now() + START_TIMEOUT;
  for (;;) {
    try {
      const { status } = await fetch(`${url}/v1/pets`, {
        headers: { Authorization: `Bearer ${key}` },
      });
      if (status !== 200) {
        throw new Error(`it answered ${status}`);
      }
      return;
    } catch (error) {
      if (hasEnded(child) || Date.now() > deadline) {
        throw error;
      }
      await wait(50);
    }
  }
}

async function stop(child) {
  if (hasEnded(child)) {
    return;
  }
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT);
  await ended;
  clearTimeout(timer);
}

const hasEnded = (child) => child.exitCode !== null || child.signalCode !== null;

/** Processes can be read in /proc, which Linux has. */
export const CAN_READ_PROCESSES = existsSync('/proc/self/stat');

/** @returns the CPU seconds that a process has used, all its threads together. */
export async function cpuSeconds(pid) {
  const { user, system } = await readStat(pid);
  return (user + system) / TICKS;
}

/** @returns the CPU seconds that PostgreSQL's server process and all sessions it ever had have used. */
export async function postgresCpuSeconds(pid) {
  const processes = await Promise.all(
    // A process may end between its listing and its reading; its time is the parent's by then.
    (await readdir('/proc'))
      .filter((name) => /^\d+$/.test(name))
      .map((name) => readStat(name).catch(() => undefined)),
  );
  const sessions = processes.flatMap((stat) =>
    stat !== undefined && stat.parent === pid ? [stat] : [],
  );
  const { user, system, endedUser, endedSystem } = await readStat(pid);
  return sessions.reduce(
    (sum, stat) => sum + (stat.user + stat.system) / TICKS,
    (user + system + endedUser + endedSystem) / TICKS,
  );
}

/** @returns the most memory that a process was resident with, in MiB. */
export async function peakMemory(pid) {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

/** Linux counts a process's time in units of 10 ms (USER_HZ), whatever the kernel's own tick is. */
const TICKS = 100;

/** /proc/PID/stat, proc(5). The name, in parentheses, may hold spaces. */
async function readStat(pid) {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [user, system, endedUser, endedSystem] = fields.slice(11, 15);
  return { parent: fields[1], user, system, endedUser, endedSystem };
}

function path(file) {
  return fileURLToPath(new URL(file, import.meta.url));
}
