import { execFileSync } from 'node:child_process';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { addPet, petNames, statusWith } from '../support/pets.js';
import { type EmbeddedService, Project } from '../support/project.js';

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
    const entries = await readdir(join(project.folder, '.data'), {
      recursive: true,
      withFileTypes: true,
    });
    const files = entries.filter((entry) => entry.isFile());
    expect(files.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['api-key', 'PG_VERSION']),
    );
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
    expect(await petNames(other.base, other.key)).toEqual(['Rex']);

    expect((await one.program.end('SIGTERM')).code).toBe(0);
    expect(await petNames(other.base, other.key)).toEqual(['Rex']);

    expect((await other.program.end('SIGTERM')).code).toBe(0);
    expect(await project.postmaster()).toBeUndefined();
  });
});
