import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames } from '../support/pets.js';
import type { Ids, Program } from '../support/program.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('a first start, interrupted while it creates the database', () => {
  let project: Project;
  let program: Program;
  let initdb: number;
  afterEach(async () => {
    endNow(initdb);
    await project.remove();
  });

  async function startAsFarAsInitdb(ids: Ids = {}): Promise<void> {
    project = await Project.create({ ids });
    program = project.spawn('serve');
    await until('initdb works', () => dataFiles().includes('PG_VERSION'));
    initdb = Number(execFileSync('pgrep', ['-P', String(program.processId)], { encoding: 'utf8' }));
  }

  /** The names of the files of the database, wherever it is made. */
  function dataFiles(): string[] {
    try {
      const entries = readdirSync(join(project.folder, '.data'), {
        recursive: true,
        withFileTypes: true,
      });
      return entries.map(({ name }) => name);
    } catch {
      // Some came or went meanwhile.
      return [];
    }
  }

  async function expectNextToServeInSpiteOfInitdb(): Promise<void> {
    await program.end('SIGKILL');
    expect(readdirSync(join(project.folder, '.data'))).not.toContain('postgres');

    const { base, key } = await project.serveEmbedded();
    await addPet(base, key, 'Rex');
    await until('the first initdb has ended', () => !isRunning(initdb));
    expect(await petNames(base, key)).toEqual(['Rex']);
  }

  it('leaves nothing half-made to the next one when it was killed', async () => {
    await startAsFarAsInitdb();
    await expectNextToServeInSpiteOfInitdb();
  });

  const account = ordinaryAccount();
  // Only root can start a process as another account; elsewhere the test above ran as an ordinary one.
  (account === undefined ? it.skip : it)('neither does one of an ordinary account', async () => {
    await startAsFarAsInitdb(account);
    await expectNextToServeInSpiteOfInitdb();
  });

  it('leaves nothing half-made to the next one, and no word, when Ctrl-C was pressed', async () => {
    await startAsFarAsInitdb();
    program.signalGroup('SIGINT');
    // Whether that ends it depends on what it is doing.
    endNow(initdb);
    expect(await program.outcome).toEqual({ code: 0, stdout: '', stderr: '' });

    const { base, key } = await project.serveEmbedded();
    expect(await petNames(base, key)).toEqual([]);
  });
});

function isRunning(processId: number): boolean {
  try {
    return process.kill(processId, 0);
  } catch {
    return false;
  }
}

function endNow(processId: number): void {
  if (isRunning(processId)) {
    process.kill(processId, 'SIGKILL');
  }
}
