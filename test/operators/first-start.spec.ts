import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames, statusWith } from '../support/pets.js';
import type { Ids, Program } from '../support/program.js';
import { type EmbeddedService, Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('the first start, without any configuration', () => {
  const project = Project.ofTests();
  let service: EmbeddedService;
  beforeAll(async () => {
    service = await project.serveEmbedded();
  });

  it('prints the base address, the key and a command that works when pasted', () => {
    expect(service.base).toMatch(/^http:\/\/127\.0\.0\.1:[1-9][0-9]*\/v1$/);
    const printed = execFileSync('sh', ['-c', service.curl], { encoding: 'utf8', stdio: 'pipe' });
    expect(JSON.parse(printed)).toEqual([]);
  });

  it('keeps all that it wrote from other accounts', async () => {
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

  it('leaves the database running for the key command beside it', async () => {
    const { code, stdout } = await project.run('keys', ['create', '--name', 'second']);
    expect(code).toBe(0);
    expect(await statusWith(service.base, stdout.trim())).toBe(200);
  });

  it('is followed by one that prints another key where that one was revoked', async () => {
    expect((await project.run('keys', ['revoke', '1'])).code).toBe(0);
    const { base, key } = await project.serveEmbedded();
    expect(await statusWith(base, key)).toBe(200);
  });
});

describe('two first starts at once', () => {
  const project = Project.ofTests();

  it('create one database and share it, and the last process stops it', async () => {
    const [one, other] = await Promise.all([project.serveEmbedded(), project.serveEmbedded()]);
    expect(one.base).not.toBe(other.base);
    await addPet(one.base, one.key, 'Rex');
    for (const { program } of [one, other]) {
      expect(await petNames(other.base, other.key)).toEqual(['Rex']);
      expect((await program.end('SIGTERM')).code).toBe(0);
    }
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
    try {
      return readdirSync(join(project.folder, '.data'), {
        recursive: true,
        withFileTypes: true,
      }).map(({ name }) => name);
    } catch {
      // Some came or went meanwhile.
      return [];
    }
  }

  const account = ordinaryAccount();
  // Only root can start a process as another account. Elsewhere the first of these runs as an ordinary one.
  const accounts: [string, Ids][] = account
    ? [
        ['this', {}],
        ['an ordinary', account],
      ]
    : [['this', {}]];

  it.each(accounts)(
    'by kill -9, leaves nothing incomplete to the next one, of %s account',
    async (_which, ids) => {
      await startAsFarAsInitdb(ids);
      await program.end('SIGKILL');
      expect(readdirSync(join(project.folder, '.data'))).not.toContain('postgres');

      const { base, key } = await project.serveEmbedded();
      await addPet(base, key, 'Rex');
      await until('the first initdb has ended', () => !signal(initdb, 0));
      expect(await petNames(base, key)).toEqual(['Rex']);
    },
  );

  it('by Ctrl-C, leaves nothing incomplete to the next one, and prints nothing', async () => {
    await startAsFarAsInitdb({});
    program.signalGroup('SIGINT');
    // Whether that ends it depends on what it is doing.
    signal(initdb, 'SIGKILL');
    expect(await program.outcome).toEqual({ code: 0, stdout: '', stderr: '' });

    const { base, key } = await project.serveEmbedded();
    expect(await petNames(base, key)).toEqual([]);
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
