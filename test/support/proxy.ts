import assert from 'node:assert';
import { spawnSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../scripts/free-port.mjs';
import { read } from './documents.js';
import { PATH, Program } from './program.js';
import { RawConnection } from './raw-http.js';
import { temporaryFolder } from './temporary-folder.js';
import { until } from './until.js';

export const PROXIES = ['haproxy', 'nginx'] as const;

export type ProxyName = (typeof PROXIES)[number];

function expectValid(name: ProxyName, args: string[], env: Record<string, string>): void {
  const check = spawnSync(name, args, { env: { PATH, ...env }, encoding: 'utf8' });
  assert.equal(check.status, 0, check.stderr);
  assert.doesNotMatch(check.stderr, /warn|alert/i);
}

type Edit = (text: string) => string;

/** A proxy with its configuration of `deploy/`, before two processes of this machine. */
export class Proxy {
  private constructor(
    readonly port: number,
    /** The address of haproxy's own metrics. */
    readonly metrics: string | undefined,
    readonly program: Program,
    private readonly folder: string,
  ) {}

  /** What it has logged so far: haproxy to its standard output. */
  async log(): Promise<string> {
    return (
      this.program.stdout +
      (await readFile(join(this.folder, 'animal-store.log'), 'utf8').catch(() => ''))
    );
  }

  /**
   * @param ports those of the two processes. @param cors whether pages may read its own errors. @param variables further ones
   *   of its environment. @param edit what else to change in its configuration.
   */
  static async start(
    name: ProxyName,
    ports: [number, number],
    cors = false,
    variables: Record<string, string> = {},
    edit: Edit = (text) => text,
  ): Promise<Proxy> {
    const folder = await temporaryFolder();
    const port = await freePort();
    const { args, env: own } = await { haproxy, nginx }[name](folder, port, ports, cors, edit);
    const env = { ...own, ...variables };
    expectValid(name, [name === 'nginx' ? '-t' : '-c', ...args], env);
    const program = Program.start(name, args, { env: { PATH, ...env } });
    const connection = await until(`${name} listens`, () =>
      RawConnection.open(port).catch(() => undefined),
    );
    connection!.vanish();
    return new Proxy(port, own['METRICS'], program, folder);
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Stops it. @returns what it logged. */
  async stop(): Promise<string> {
    const { stdout } = await this.program.end('SIGTERM');
    const files = (await readdir(this.folder)).filter((name) => name.endsWith('.log'));
    const texts = files.map((name) => readFile(join(this.folder, name), 'utf8'));
    return [stdout, ...(await Promise.all(texts))].join('\n');
  }
}

async function haproxy(
  folder: string,
  port: number,
  ports: [number, number],
  cors: boolean,
  edit: Edit,
) {
  const file = join(folder, 'haproxy.cfg');
  await writeFile(file, edit(read('deploy/haproxy.cfg')));
  const [LISTEN, PROCESS_1, PROCESS_2] = [port, ...ports].map((each) => `127.0.0.1:${each}`);
  const METRICS = `127.0.0.1:${await freePort()}`;
  return {
    args: ['-f', file, '-db', '-p', join(folder, 'pid')],
    env: { LISTEN, PROCESS_1, PROCESS_2, METRICS, ...(cors && { CORS: '1' }) } as Record<
      string,
      string
    >,
  };
}

async function nginx(
  folder: string,
  port: number,
  ports: [number, number],
  cors: boolean,
  edit: Edit,
) {
  const site = edit(read('deploy/nginx.conf'))
    .replace(/(?<=\$cors \{\s+default )""/, cors ? '"*"' : '""')
    .replaceAll('/var/log/nginx/', `${folder}/`)
    .replace('listen 8080;', `listen 127.0.0.1:${port};`)
    .replace('server 127.0.0.1:3000 ', `server 127.0.0.1:${ports[0]} `)
    .replace('server 127.0.0.1:3001 ', `server 127.0.0.1:${ports[1]} `);
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  await writeFile(
    join(folder, 'nginx.conf'),
    `daemon off;
    pid ${folder}/pid;
    events { worker_connections 20000; }
    http {
      access_log off;
      ${folders.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')}
      ${site}
    }`,
  );
  const env: Record<string, string> = {};
  return { args: ['-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')], env };
}
