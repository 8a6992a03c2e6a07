/** The service and other programs as processes of their own, which end with this one. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../scripts/free-port.mjs';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

/** What `npm run start:prod` gives to Node. */
const ARGUMENTS = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
  .scripts['start:prod'].split(' ')
  .slice(2);

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

/**
 * Sees to it that a child process, and what it started, ends with this process, however this one ends.
 *
 * @template {import('node:child_process').ChildProcess} Child
 * @param {Child} child
 * @returns the child.
 */
export function endsWithThis(child) {
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

process.on('exit', () => {
  for (const { pid } of running) {
    family(pid).forEach((member) => signal(member, 'SIGKILL'));
  }
});

/** @param {number | undefined} pid @returns {number[]} the ids of a process and its children. */
export function family(pid) {
  const children = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/ +/).map(Number))
    .filter(([, parent]) => parent === pid);
  return pid === undefined ? [] : [pid, ...children.map(([child]) => child)];
}

/**
 * Sends a signal to a process that may have ended.
 *
 * @param {number} pid
 * @param {NodeJS.Signals} name
 */
export function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') {
      throw error;
    }
  }
}

/** The service, built, as production runs it; its log goes nowhere. */
export class Service {
  port = 0;
  origin = '';
  stderr = '';
  /** @type {import('node:child_process').ChildProcess} */
  process;
  /** @type {Promise<number | null>} Its exit code; `null` where a signal ended it. */
  ended;
  /** @type {() => Promise<Service>} Starts it again, on its port. */
  restart;

  /**
   * @param {string} databaseUrl
   * @param {Record<string, string>} [variables] beside `DATABASE_URL`; `PORT` to keep one.
   */
  static async start(databaseUrl, variables = {}) {
    const service = new Service();
    service.port = Number(variables.PORT ?? (await freePort()));
    service.origin = `http://127.0.0.1:${service.port}`;
    service.restart = () =>
      Service.start(databaseUrl, { ...variables, PORT: String(service.port) });
    service.process = endsWithThis(
      spawn(process.execPath, ARGUMENTS, {
        cwd: PROJECT,
        env: {
          PATH: process.env.PATH,
          NODE_ENV: 'production',
          DATABASE_URL: databaseUrl,
          HOST: '127.0.0.1',
          DRAIN_SECONDS: '0',
          // The defaults, whatever the project's .env says.
          DATABASE_POOL_SIZE: '10',
          LOG_LEVEL: 'info',
          RATE_LIMIT_PER_MINUTE: '',
          CORS_ORIGINS: '',
          TRUST_PROXY: '',
          ...variables,
          PORT: String(service.port),
        },
        stdio: ['ignore', 'ignore', 'pipe'],
      }),
    );
    service.process.stderr?.on('data', (text) => (service.stderr += text));
    service.ended = once(service.process, 'exit').then(([code]) => code);
    while (!(await service.isLive())) {
      if (service.process.exitCode !== null || service.process.signalCode !== null) {
        throw new Error(`The service did not start: ${service.stderr}`);
      }
      await wait(20);
    }
    return service;
  }

  async isLive() {
    return fetch(`${this.origin}/health/live`).then(
      ({ ok }) => ok,
      () => false,
    );
  }

  /**
   * Sends a signal and waits for the end.
   *
   * @param {NodeJS.Signals} signal
   * @returns the exit code; `null` where the signal ended it.
   */
  async end(signal) {
    this.process.kill(signal);
    return this.ended;
  }

  /** MiB that it is, or ever was, resident with. @param field `VmRSS` or `VmHWM` of proc(5). */
  async memory(field) {
    const status = await readFile(`/proc/${this.process.pid}/status`, 'utf8');
    return Math.round(Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024);
  }
}
