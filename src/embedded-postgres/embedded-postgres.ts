import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chown, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { sqlState } from '../errors/database-error.js';
import { type Account, postgresAccount } from './account.js';
import { findBinaries } from './binaries.js';
import { NoEmbeddedPostgres } from './no-embedded-postgres.js';

/** Milliseconds that a start may take, recovery after a crash included. */
const START_TIMEOUT = 30_000;

/** Milliseconds that a stop may take before it is left to itself. */
const STOP_TIMEOUT = 15_000;

/**
 * The advisory lock that every process that uses the server holds in shared mode. A process that gets it in exclusive
 * mode is the last one, and stops the server.
 */
const IN_USE_LOCK = 7_236_102_512;

const INVALID_PASSWORD = '28P01';

/** The environment variables of PostgreSQL's programs. `LC_ALL` is for messages in English. */
const ENVIRONMENT = { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' };

/**
 * A real PostgreSQL, run from binaries in node_modules, for a first start, for development and for tests. It listens on
 * the loopback address alone, with a random password, and is shared by all processes that start it on the same folder.
 * It outlives a process that is killed; the next one takes it over.
 */
export class EmbeddedPostgres {
  private constructor(
    /** A `postgres://` URL of the database `postgres`. */
    readonly url: string,
    private readonly processId: number,
    private readonly session: Client,
  ) {}

  /**
   * Starts the server of `folder`, or joins the one that runs there already. The first start creates it.
   *
   * @param folder holds the data, the password and the server's log.
   * @throws NoEmbeddedPostgres where PostgreSQL cannot run here.
   */
  static async start(folder: string): Promise<EmbeddedPostgres> {
    const data = join(folder, 'postgres');
    const log = join(folder, 'postgres.log');
    await mkdir(folder, { recursive: true });
    const account = await postgresAccount(data);
    const deadline = Date.now() + START_TIMEOUT;
    while (Date.now() < deadline) {
      const running = await EmbeddedPostgres.join(data);
      if (running !== undefined) {
        return running;
      }
      const binaries = await findBinaries(account);
      if (!existsSync(data)) {
        await create(folder, data, binaries, account);
      }
      await launch(data, log, binaries, account);
    }
    throw new NoEmbeddedPostgres(`The embedded PostgreSQL did not start; its log is ${log}.`);
  }

  /** The server that runs on `data` according to its `postmaster.pid` and lets us in; else `undefined`. */
  private static async join(data: string): Promise<EmbeddedPostgres | undefined> {
    const pidFile = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
    const [processId, , , port] = pidFile.split('\n').map(Number);
    if (!processId || !port || !signal(processId, 0)) {
      return undefined;
    }
    const password = (await readFile(passwordFile(data), 'utf8')).trim();
    const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    const session = new Client({ connectionString: url, application_name: 'animal-store keeper' });
    // The server may be stopped under us; whoever queries it notices.
    session.on('error', () => undefined);
    try {
      await session.connect();
      await session.query('select pg_advisory_lock_shared($1)', [IN_USE_LOCK]);
      return new EmbeddedPostgres(url, processId, session);
    } catch (error) {
      await session.end().catch(() => undefined);
      if (sqlState(error) === INVALID_PASSWORD) {
        throw new NoEmbeddedPostgres(
          `The PostgreSQL in ${data} does not take the password in ${passwordFile(data)}.`,
        );
      }
      return undefined;
    }
  }

  /** Stops the server, unless another process still uses it. What was committed stays. */
  async stop(): Promise<void> {
    if (await this.releaseUse()) {
      // PostgreSQL's fast shutdown. Until it ends this session, the session's exclusive lock keeps others from joining.
      signal(this.processId, 'SIGINT');
      const deadline = Date.now() + STOP_TIMEOUT;
      while (signal(this.processId, 0) && Date.now() < deadline) {
        await wait(20);
      }
    }
    await this.session.end().catch(() => undefined);
  }

  private async releaseUse(): Promise<boolean> {
    try {
      await this.session.query('select pg_advisory_unlock_shared($1)', [IN_USE_LOCK]);
      const { rows } = await this.session.query('select pg_try_advisory_lock($1) as is_last', [
        IN_USE_LOCK,
      ]);
      return rows[0].is_last;
    } catch {
      // The session has ended, so the server may have ended too, and its process id may be that of another process. So
      // no signal is sent. If the server still runs, the next start joins it.
      return false;
    }
  }
}

/**
 * Creates the server's data and password in a folder of this process, and renames it to `data`. So `data` is never
 * incomplete, and no `initdb` of another process writes to it. If several processes do this at once, all use the folder
 * that is renamed first.
 */
async function create(folder: string, data: string, binaries: string, account: Account) {
  await removeLeftovers(folder);
  const unfinished = `${data}.${process.pid}`;
  // The account may have no access to the folder.
  const forInitdb = join(tmpdir(), `animal-store-${randomBytes(8).toString('hex')}`);
  const password = randomBytes(32).toString('hex');
  try {
    await mkdir(unfinished, { mode: 0o700 });
    await writeFile(forInitdb, password, { mode: 0o600, flag: 'wx' });
    if (account.ids.uid !== undefined && account.ids.gid !== undefined) {
      await chown(unfinished, account.ids.uid, account.ids.gid);
      await chown(forInitdb, account.ids.uid, account.ids.gid);
    }
    await promisify(execFile)(
      join(binaries, 'initdb'),
      [
        ['-D', fromWithin(unfinished, account)],
        ['--username=postgres', `--pwfile=${forInitdb}`, '--auth=scram-sha-256'],
        ['--encoding=UTF8', '--locale=C'],
      ].flat(),
      { cwd: unfinished, env: ENVIRONMENT, ...account.ids },
    );
    await writeFile(passwordFile(unfinished), `${password}\n`, { mode: 0o600 });
    await rename(unfinished, data);
  } catch (error) {
    if (!existsSync(data)) {
      throw new NoEmbeddedPostgres(`The embedded PostgreSQL was not created: ${String(error)}`);
    }
  } finally {
    await rm(forInitdb, { force: true });
    await rm(unfinished, { recursive: true, force: true });
  }
}

/** Deletes what processes that have ended left unfinished. If an `initdb` of theirs still runs, it fails. */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const [, processId] = /^postgres\.([0-9]+)$/.exec(name) ?? [];
    if (processId === String(process.pid) || (processId && !signal(Number(processId), 0))) {
      await rm(join(folder, name), { recursive: true, force: true }).catch(() => undefined);
    }
  }
}

/**
 * Starts the server, and returns when it is ready or has ended. It may end because a server that crashed left its lock
 * file, or because another process starts it too: the caller then tries again.
 */
async function launch(data: string, logFile: string, binaries: string, account: Account) {
  const log = await open(logFile, 'a', 0o600);
  const settings = `-p ${await freePort()} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
  const seconds = String(START_TIMEOUT / 1000);
  try {
    // pg_ctl starts the server in a session of its own. So Ctrl-C reaches only this process, which then stops it.
    const starting = spawn(
      join(binaries, 'pg_ctl'),
      ['start', '-D', fromWithin(data, account), '-w', '-t', seconds, '-o', settings],
      { cwd: data, env: ENVIRONMENT, ...account.ids, stdio: ['ignore', log.fd, log.fd] },
    );
    await once(starting, 'exit');
  } finally {
    await log.close();
  }
}

/**
 * The path of the data folder for PostgreSQL's programs. If they run as another account, this account may have no
 * access to the folder by its path, for example under `/root`. But it has access to it as its working directory.
 */
function fromWithin(data: string, account: Account): string {
  return account.ids.uid !== undefined && process.platform === 'linux' ? '/proc/self/cwd' : data;
}

const passwordFile = (data: string) => join(data, 'animal-store.password');

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
}

/** Sends a signal. @returns whether there is such a process, be it another account's. */
function signal(processId: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(processId, name);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
