import { chmod, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { newApiKey } from '../../src/api-key.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { statusWith } from '../support/pets.js';
import { Project } from '../support/project.js';

describe("docker compose's api", () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  let entrypoint: string[];
  beforeAll(async () => {
    DATABASE_URL = await project.createMigratedDatabase();
    // As the Dockerfile does.
    const program = join(project.folder, 'dist/src/main.js');
    await chmod(program, 0o755);
    await symlink(program, join(project.folder, 'animal-store'));
    const compose = await readFile(join(PROJECT_ROOT, 'docker-compose.yml'), 'utf8');
    ({ entrypoint } = parse(compose).services.api);
  });

  const start = (LOCAL_API_KEY: string) =>
    project.start(entrypoint[0]!, entrypoint.slice(1), {
      PATH: `${project.folder}:${process.env['PATH']}`,
      DATABASE_URL,
      LOCAL_API_KEY,
    });

  it('serves with the key in LOCAL_API_KEY, and gets the signals', async () => {
    const key = newApiKey();
    const program = start(key);
    const [, base] = await program.says(/^Animal Store Service at (\S+)$/m);
    expect(await statusWith(base!, key)).toBe(200);
    expect((await program.end('SIGTERM')).code).toBe(0);
  });

  it('says in its own log why the key in LOCAL_API_KEY is refused, and does not serve', async () => {
    const malformed = await start('animalstore_sekrit').outcome;
    expect(malformed).toMatchObject({ code: 1, stdout: '' });
    expect(malformed.stderr).toMatch(/^LOCAL_API_KEY must hold a key .+\.env/);
    expect(malformed.stderr).not.toContain('sekrit');

    const key = newApiKey();
    await project.run('keys', ['admit', '--name', 'x'], { DATABASE_URL, LOCAL_API_KEY: key });
    const { stdout } = await project.run('keys', ['list', '--json'], { DATABASE_URL });
    await project.run('keys', ['revoke', JSON.parse(stdout).at(-1).id], { DATABASE_URL });
    const revoked = await start(key).outcome;
    expect(revoked).toMatchObject({ code: 1, stdout: '' });
    expect(revoked.stderr).toMatch(/^The key in LOCAL_API_KEY is revoked or expired.+\.env/);
  });
});
