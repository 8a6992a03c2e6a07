import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { postgresAccount } from '../../src/embedded-postgres/account.js';
import { freePort } from './free-port.js';

const ENVIRONMENT = { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' };

/** Where Debian has the server's programs, by major version. */
const DEBIAN = '/usr/lib/postgresql';

/** @returns the folder of the installed PostgreSQL's server; `undefined` without it or its clients. In CI it must be there. */
export async function systemBinaries(): Promise<string | undefined> {
  const versions = (await readdir(DEBIAN).catch(() => [])).toSorted(
    (a, b) => Number(b) - Number(a),
  );
  const folders = versions.map((version) => join(DEBIAN, version, 'bin'));
  const found = folders.find((bin) => runs(join(bin, 'initdb')));
  const isComplete = found !== undefined && ['psql', 'pg_dump', 'pg_restore'].every(runs);
  if (!isComplete && process.env['CI']) {
    throw new Error('PostgreSQL and its clients are not installed');
  }
  return isComplete ? found : undefined;
}

const runs = (program: string) => spawnSync(program, ['--version']).status === 0;

/** A new server of the installed PostgreSQL, which pg_dump can dump. Its superuser is `postgres`. */
export class SystemPostgres {
  /** What it has logged so far. */
  log = '';

  private constructor(
    readonly port: number,
    readonly password: string,
    private readonly folder: string,
    private readonly child: ChildProcess,
  ) {}

  /** @param settings such as `log_statement=all`. */
  static async start(binaries: string, settings: string[] = []): Promise<SystemPostgres> {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-system-postgres-'));
    await chmod(folder, 0o755);
    const { ids } = await postgresAccount(folder);
    const data = join(folder, 'data');
    const passwordFile = join(folder, 'password');
    const password = 'superuser-password';
    await mkdir(data, { mode: 0o700 });
    await writeFile(passwordFile, password);
    if (ids.uid !== undefined && ids.gid !== undefined) {
      await chown(data, ids.uid, ids.gid);
    }
    const options = { env: ENVIRONMENT, cwd: data, ...ids };
    await promisify(execFile)(
      join(binaries, 'initdb'),
      [
        ['-D', data, '--username=postgres', `--pwfile=${passwordFile}`],
        ['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '--no-sync'],
      ].flat(),
      options,
    );
    const port = await freePort();
    const all = [
      'listen_addresses=127.0.0.1',
      'unix_socket_directories=',
      'fsync=off',
      ...settings,
    ];
    const child = spawn(
      join(binaries, 'postgres'),
      ['-D', data, '-p', String(port), ...all.flatMap((setting) => ['-c', setting])],
      { ...options, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    const server = new SystemPostgres(port, password, folder, child);
    child.stderr!.setEncoding('utf8').on('data', (text) => (server.log += text));
    while (!server.log.includes('ready to accept connections')) {
      await once(child.stderr!, 'data');
    }
    return server;
  }

  /** Of the database `postgres`, as the superuser. */
  get url(): string {
    return `postgres://postgres:${this.password}@127.0.0.1:${this.port}/postgres`;
  }

  /** PostgreSQL's immediate shutdown. */
  async stop(): Promise<void> {
    if (this.child.exitCode === null) {
      const ended = once(this.child, 'exit');
      this.child.kill('SIGQUIT');
      await ended;
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}
