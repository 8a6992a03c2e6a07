import { execFile, spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chown, mkdir, mkdtemp, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { type Account, findBinaries, noEmbeddedPostgres, postgresAccount } from './binaries.js';

/** Milliseconds that a start may take, recovery after a crash included. */
const START_TIMEOUT = 30_000;

/** Milliseconds that a stop may take before it is left to itself. */
const STOP_TIMEOUT = 15_000;

/**
 * The advisory lock that every process that uses the server holds in shared mode. A process that gets it in exclusive
 * mode is the last one, and stops the server.
 */
const IN_USE_LOCK = 7_236_102_512;

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
   * @throws OperatorError if PostgreSQL cannot run here.
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
        await create(data, binaries, account);
      }
      await launch(data, log, binaries, account);
    }
    throw noEmbeddedPostgres(`The embedded PostgreSQL did not start; its log is ${log}.`);
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
    // The server may be stopped meanwhile. Whatever queries it notices.
    session.on('error', () => undefined);
    try {
      await session.connect();
      await session.query('select pg_advisory_lock_shared($1)', [IN_USE_LOCK]);
      return new EmbeddedPostgres(url, processId, session);
    } catch {
      await session.end().catch(() => undefined);
      return undefined;
    }
  }

  /** Stops the server, unless another process still uses it. What was committed stays. */
  async stop(): Promise<void> {
    const ask = (sql: string) => this.session.query(sql, [IN_USE_LOCK]);
    try {
      await ask('select pg_advisory_unlock_shared($1)');
      const { rows } = await ask('select pg_try_advisory_lock($1) as "isLast"');
      if (rows[0].isLast) {
        // PostgreSQL's fast shutdown. Until it ends this session, the exclusive lock keeps others from joining.
        signal(this.processId, 'SIGINT');
        const deadline = Date.now() + STOP_TIMEOUT;
        while (signal(this.processId, 0) && Date.now() < deadline) {
          await wait(20);
        }
      }
    } catch {
      // The session has ended, so the server may have ended too, and its process id may be that of another process. If
      // the server still runs, the next start joins it.
    }
    await this.session.end().catch(() => undefined);
  }
}

/**
 * Creates the server's data and password in a folder of this process, and renames it to `data`. So `data` is never
 * incomplete, and no `initdb` of another process writes to it. If several processes do this at once, all use the folder
 * that is renamed first.
 */
async function create(data: string, binaries: string, account: Account): Promise<void> {
  const unfinished = await mkdtemp(`${data}.`);
  // The account may have no access to the folder.
  const forInitdb = join(tmpdir(), `animal-store-${randomBytes(8).toString('hex')}`);
  const password = randomBytes(32).toString('hex');
  try {
    await writeFile(forInitdb, password, { mode: 0o600, flag: 'wx' });
    if (account.uid !== undefined && account.gid !== undefined) {
      await chown(unfinished, account.uid, account.gid);
      await chown(forInitdb, account.uid, account.gid);
    }
    await promisify(execFile)(
      join(binaries, 'initdb'),
      [
        ['-D', fromWithin(unfinished, account), '--encoding=UTF8', '--locale=C'],
        ['--username=postgres', `--pwfile=${forInitdb}`, '--auth=scram-sha-256'],
      ].flat(),
      { cwd: unfinished, env: ENVIRONMENT, ...account },
    );
    await writeFile(passwordFile(unfinished), `${password}\n`, { mode: 0o600 });
    await rename(unfinished, data);
  } catch (error) {
    if (!existsSync(data)) {
      throw noEmbeddedPostgres(`The embedded PostgreSQL was not created: ${String(error)}`);
    }
  } finally {
    await rm(forInitdb, { force: true });
    await rm(unfinished, { recursive: true, force: true });
  }
}

/**
 * Starts the server, and returns when it is ready or has ended. It may end because a server that crashed left its lock
 * file, because another process starts it too, or because the port is in use: the caller then tries again.
 */
async function launch(data: string, logFile: string, binaries: string, account: Account) {
  const log = await open(logFile, 'a', 0o600);
  const port = randomInt(20_000, 32_000);
  const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
  // pg_ctl starts the server in a session of its own. So Ctrl-C reaches only this process, which then stops it.
  const starting = spawn(
    join(binaries, 'pg_ctl'),
    ['start', '-D', fromWithin(data, account), '-w', '-t', '30', '-o', settings],
    { cwd: data, env: ENVIRONMENT, ...account, stdio: ['ignore', log.fd, log.fd] },
  );
  await once(starting, 'exit').finally(() => log.close());
}

/**
 * The path of the data folder for PostgreSQL's programs. If they run as another account, this account may have no
 * access to the folder by its path, for example under `/root`. But it has access to it as its working directory.
 */
function fromWithin(data: string, account: Account): string {
  return account.uid !== undefined && process.platform === 'linux' ? '/proc/self/cwd' : data;
}

const passwordFile = (data: string) => join(data, 'animal-store.password');

/** Sends a signal. @returns whether there is such a process, also one of another account. */
function signal(processId: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(processId, name);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
