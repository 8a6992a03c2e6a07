import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { postgresAccount } from '../../src/embedded-postgres/account.js';
import { freePort } from './free-port.js';
import type { SystemPostgres } from './system-postgres.js';

/** A hot standby on this machine. */
export class Standby {
  private child!: ChildProcess;
  private paused: number[] = [];

  private constructor(
    readonly url: string,
    readonly port: number,
    private readonly binaries: string,
    private readonly folder: string,
  ) {}

  static async of(primary: SystemPostgres, binaries: string): Promise<Standby> {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-standby-'));
    await chmod(folder, 0o755);
    const port = await freePort();
    const url = Object.assign(new URL(primary.url), { port: String(port) }).href;
    const standby = new Standby(url, port, binaries, folder);
    const { data } = standby;
    await mkdir(data, { mode: 0o700 });
    const { ids } = await postgresAccount(folder);
    if (ids.uid !== undefined && ids.gid !== undefined) {
      await chown(data, ids.uid, ids.gid);
    }
    await promisify(execFile)(
      join(binaries, 'pg_basebackup'),
      ['-D', data, '-R', '-X', 'stream', '--checkpoint=fast', '-d', primary.url],
      await standby.options(),
    );
    await standby.start();
    return standby;
  }

  private get data(): string {
    return join(this.folder, 'data');
  }

  private async options() {
    const { ids } = await postgresAccount(this.folder);
    return { cwd: this.data, env: { PATH: process.env['PATH'], LC_ALL: 'C' }, ...ids };
  }

  /** Also after {@link kill}. */
  async start(): Promise<void> {
    const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off'];
    this.child = spawn(
      join(this.binaries, 'postgres'),
      ['-D', this.data, '-p', String(this.port), ...settings.flatMap((one) => ['-c', one])],
      { ...(await this.options()), stdio: ['ignore', 'ignore', 'pipe'] },
    );
    for (let log = ''; !log.includes('ready to accept read-only connections');) {
      const [text] = await once(this.child.stderr!, 'data');
      log += text;
    }
    this.child.stderr!.resume();
  }

  /** All its processes hang until {@link resume}. */
  pause(): void {
    const postmaster = this.child.pid!;
    const children = execFileSync('pgrep', ['-P', String(postmaster)], { encoding: 'utf8' });
    this.paused = [postmaster, ...children.trim().split('\n').map(Number)];
    this.paused.forEach((pid) => process.kill(pid, 'SIGSTOP'));
  }

  resume(): void {
    this.paused.splice(0).forEach((pid) => process.kill(pid, 'SIGCONT'));
  }

  /** PostgreSQL's immediate shutdown, as after a crash. */
  async kill(): Promise<void> {
    if (this.child.exitCode === null) {
      this.resume();
      const ended = once(this.child, 'exit');
      this.child.kill('SIGQUIT');
      await ended;
    }
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }
}
