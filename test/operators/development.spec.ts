import { spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { freePort } from '../../scripts/free-port.mjs';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

it('the build is announced on standard error, made only if something has changed, and deletes old migrations only', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'animal-store-build-'));
  const files = 'package.json nest-cli.json tsconfig.json tsconfig.build.json scripts';
  for (const each of files.split(' ')) {
    await cp(join(PROJECT_ROOT, each), join(folder, each), { recursive: true });
  }
  await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const file of [
    'src/main.ts',
    'migrations/none.ts',
    'dist/src/main.js',
    'dist/src/last.js',
    'dist/migrations/renamed.js',
  ]) {
    await mkdir(join(folder, file, '..'), { recursive: true });
    await writeFile(join(folder, file), 'export {};');
  }
  const before = Date.now() / 1_000 - 60;
  await utimes(join(folder, 'dist/src/main.js'), before, before);
  const run = () => {
    const args = ['scripts/build-when-needed.mjs'];
    const options = { cwd: folder, encoding: 'utf8' } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, args, options);
    return [status, stdout, stderr.includes('Building…')];
  };
  expect(run()).toEqual([0, '', true]);
  expect(run()).toEqual([0, '', false]);
  // start:dev may start the service at that moment.
  expect(await readdir(join(folder, 'dist/src'))).toContain('last.js');
  expect(await readdir(join(folder, 'dist/migrations'))).not.toContain('renamed.js');
  await rm(folder, { recursive: true });
});

describe('start:dev', () => {
  const project = Project.ofTests();

  it('restarts the service when a guide or .env changes, after a failure too', async () => {
    const DATABASE_URL = await project.createDatabase();
    const PORT = String(await freePort());
    const args = ['scripts/restart-on-change.mjs', 'dist/src/main.js'];
    const variables = { DATABASE_URL, MIGRATE_ON_START: 'true', PORT };
    const program = project.start(process.execPath, args, variables);
    await program.says(/^Animal Store Service at/m);
    const page = () =>
      fetch(`http://127.0.0.1:${PORT}/docs/guides/errors`)
        .then((response) => response.text())
        .catch(() => 'not there');
    await writeFile(join(project.folder, 'docs/guides/errors.md'), '# Changed');
    await until('the guide has changed', async () => (await page()).includes('>Changed</a></h1>'));

    await writeFile(join(project.folder, '.env'), 'DOCS=nonsense');
    await until('the service has failed', async () => (await page()) === 'not there');
    await writeFile(join(project.folder, '.env'), 'DOCS=off');
    await until('there is no guide', async () => (await page()).includes('route_not_found'));
    expect((await program.end('SIGTERM')).code).toBe(0);
  });

  it('ends by a signal that comes before the service can handle it', async () => {
    const starting = `process.kill(process.ppid, 'SIGTERM'); setInterval(() => {}, 1_000)`;
    const args = ['scripts/restart-on-change.mjs', '-e', starting];
    expect((await project.start(process.execPath, args, {}).outcome).code).toBe(0);
  });
});
