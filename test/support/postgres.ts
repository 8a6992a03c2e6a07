import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { appendFile, chown, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findBinaries, postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { freePort } from '../../scripts/free-port.mjs';
import { areInstalled, type Ids, Program } from './program.js';
import { temporaryFolder } from './temporary-folder.js';

const ENVIRONMENT = { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' };

/** @returns the folder of the installed PostgreSQL's server; `undefined` without it or its clients. */
export async function systemBinaries(): Promise<string | undefined> {
  // Where Debian has the server's programs, by major version.
  const debian = '/usr/lib/postgresql';
  const versions = (await readdir(debian).catch(() => [])).map(Number).toSorted((a, b) => b - a);
  const folders = versions.map((version) => join(debian, String(version), 'bin'));
  const server = folders.find((bin) => existsSync(join(bin, 'initdb')));
  const isComplete = areInstalled(join(server ?? '', 'initdb'), 'psql', 'pg_dump', 'pg_restore');
  return isComplete ? server : undefined;
}

/** A new server, on a port and in a folder that it keeps. Its superuser is `postgres`. */
export class Postgres {
  readonly password = 'superuser-password';
  private program!: Program;

  private constructor(
    readonly port: number,
    private readonly folder: string,
    private readonly binaries: string,
    private readonly ids: Ids,
    private readonly settings: string[],
  ) {}

  /**
   * @param settings such as `log_statement=all`.
   * @param binaries the embedded PostgreSQL's by default. It lacks pg_basebackup, which {@link standby} needs.
   */
  static async start(settings: string[] = [], binaries?: string): Promise<Postgres> {
    const server = await Postgres.inNewFolder(settings, binaries);
    const passwordFile = join(server.folder, 'password');
    await writeFile(passwordFile, server.password);
    const access = ['--username=postgres', `--pwfile=${passwordFile}`, '--auth=scram-sha-256'];
    await server.run('initdb', ...access, '--encoding=UTF8', '--locale=C', '--no-sync');
    await server.launch();
    return server;
  }

  private static async inNewFolder(settings: string[], binaries?: string): Promise<Postgres> {
    const folder = await temporaryFolder();
    const account = await postgresAccount(folder);
    const found = binaries ?? (await findBinaries(account));
    const server = new Postgres(await freePort(), folder, found, account, settings);
    await server.makeFolder('data');
    return server;
  }

  /** @returns a hot standby of it, which follows it. */
  async standby(): Promise<Postgres> {
    const standby = await Postgres.inNewFolder([], this.binaries);
    await standby.follow(this);
    return standby;
  }

  /** Loses what it has, and becomes a hot standby of `primary` on its port. It must not be running. */
  async follow(primary: Postgres): Promise<void> {
    for (const entry of await readdir(this.data)) {
      await rm(join(this.data, entry), { recursive: true });
    }
    await this.run('pg_basebackup', '-R', '--checkpoint=fast', '-d', primary.url);
    await this.launch();
  }

  /** @returns a base backup of it, which is not launched. */
  async baseBackup(): Promise<Postgres> {
    const backup = await Postgres.inNewFolder([], this.binaries);
    await backup.run('pg_basebackup', '--checkpoint=fast', '-d', this.url);
    return backup;
  }

  /** Adds lines to its `postgresql.auto.conf`, and an empty `recovery.signal`. Launched next, it recovers from the archive. */
  async setRecovery(lines: string[]): Promise<void> {
    await appendFile(join(this.data, 'postgresql.auto.conf'), `${lines.join('\n')}\n`);
    await writeFile(join(this.data, 'recovery.signal'), '');
  }

  /** Ends the standby's recovery. Returns once it accepts writes. */
  async promote(): Promise<void> {
    await this.run('pg_ctl', 'promote');
  }

  /** Runs one of PostgreSQL's programs on its folder. */
  async run(program: string, ...args: string[]): Promise<void> {
    const options = { env: ENVIRONMENT, cwd: this.data, ...this.ids };
    await promisify(execFile)(join(this.binaries, program), ['-D', this.data, ...args], options);
  }

  /** @returns the path of a new folder of its account. */
  async makeFolder(name: string): Promise<string> {
    const folder = join(this.folder, name);
    await mkdir(folder, { mode: 0o700 });
    // -1: as it is.
    await chown(folder, this.ids.uid ?? -1, this.ids.gid ?? -1);
    return folder;
  }

  /** @returns the path of a new file that only its account may read. */
  async keep(name: string, content: string): Promise<string> {
    const file = join(this.folder, name);
    await writeFile(file, content, { mode: 0o600 });
    await chown(file, this.ids.uid ?? -1, this.ids.gid ?? -1);
    return file;
  }

  /** Starts it again. Returns once it accepts connections. */
  async launch(): Promise<void> {
    const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off'];
    const args = [...settings, ...this.settings].flatMap((setting) => ['-c', setting]);
    for (;;) {
      this.program = Program.start(
        join(this.binaries, 'postgres'),
        ['-D', this.data, '-p', String(this.port), ...args],
        { env: ENVIRONMENT, cwd: this.data, ids: this.ids },
      );
      try {
        await this.program.says(/ready to accept (?:read-only )?connections/, 'stderr');
        return;
      } catch (error) {
        // Processes of the one before still have its memory.
        if (!this.program.stderr.includes('pre-existing shared memory block')) {
          throw error;
        }
      }
    }
  }

  /** Of the database `postgres`, as the superuser. */
  get url(): string {
    return `postgres://postgres:${this.password}@127.0.0.1:${this.port}/postgres`;
  }

  private get data(): string {
    return join(this.folder, 'data');
  }

  /** What it has logged since it was started last. */
  get log(): string {
    return this.program.stderr;
  }

  /** All its processes hang until {@link resume}. */
  pause(): void {
    this.program.signalFamily('SIGSTOP');
  }

  resume(): void {
    this.program.signalFamily('SIGCONT');
  }

  /** `kill -9` of all its processes. */
  async kill(): Promise<void> {
    this.program.signalFamily('SIGKILL');
    await this.program.outcome;
  }

  /** Stops it in whatever state, and deletes its folder. */
  async stop(): Promise<void> {
    if (!this.program.hasEnded) {
      this.resume();
      await this.program.end('SIGQUIT');
    }
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
