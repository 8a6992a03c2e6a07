import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { postgresAccount } from '../../src/embedded-postgres/account.js';
import { freePort } from './free-port.js';

/** Whether PgBouncer is installed; in CI it must be. */
export function hasPgBouncer(): boolean {
  const isInstalled = spawnSync('pgbouncer', ['--version']).status === 0;
  if (!isInstalled && process.env['CI']) {
    throw new Error('pgbouncer is not installed');
  }
  return isInstalled;
}

/** A PgBouncer before one database; in transaction mode, with one session to it, unless `settings` say otherwise. */
export class PgBouncer {
  private constructor(
    /** A `postgres://` URL of the database, through the pooler. */
    readonly url: string,
    private readonly folder: string,
    private readonly child: ChildProcess,
  ) {}

  static async before(
    url: string,
    settings: Record<string, string | number> = {},
  ): Promise<PgBouncer> {
    const { hostname, port, username, password, pathname } = new URL(url);
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-pgbouncer-'));
    await chmod(folder, 0o755);
    const listenPort = await freePort();
    const file = join(folder, 'pgbouncer.ini');
    const all = { pool_mode: 'transaction', default_pool_size: 1, ...settings };
    await writeFile(
      file,
      `[databases]
      * = host=${hostname} port=${port} user=${username} password=${password}
      [pgbouncer]
      listen_addr = 127.0.0.1
      listen_port = ${listenPort}
      unix_socket_dir =
      auth_type = any
      ${Object.entries(all)
        .map((setting) => setting.join(' = '))
        .join('\n')}
      ignore_startup_parameters = options,extra_float_digits
      `.replaceAll(/^ +/gm, ''),
    );
    // It does not run as root either.
    const { ids } = await postgresAccount(folder);
    const child = spawn('pgbouncer', [file], { stdio: ['ignore', 'ignore', 'pipe'], ...ids });
    for (let log = ''; !log.includes('process up');) {
      const [text] = await once(child.stderr!, 'data');
      log += text;
    }
    child.stderr!.resume();
    return new PgBouncer(`postgres://pooled@127.0.0.1:${listenPort}${pathname}`, folder, child);
  }

  async stop(): Promise<void> {
    const ended = once(this.child, 'exit');
    this.child.kill('SIGTERM');
    await ended;
    await rm(this.folder, { recursive: true, force: true });
  }
}
