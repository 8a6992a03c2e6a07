import { execFileSync, spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { systemBinaries } from '../support/postgres.js';
import { freePort } from '../../scripts/free-port.mjs';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('the build', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'animal-store-build-'));
    for (const each of [
      'package.json',
      'nest-cli.json',
      'tsconfig.json',
      'tsconfig.build.json',
      'scripts',
    ]) {
      await cp(join(PROJECT_ROOT, each), join(folder, each), { recursive: true });
    }
    await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
    await mkdir(join(folder, 'src'));
    await mkdir(join(folder, 'migrations'));
    await writeFile(join(folder, 'src/main.ts'), 'export {};');
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('is announced on standard error, and made only if something has changed', async () => {
    const run = () => {
      const args = ['scripts/build-when-needed.mjs'];
      const { status, stdout, stderr } = spawnSync(process.execPath, args, {
        cwd: folder,
        encoding: 'utf8',
      });
      return [status, stdout, stderr.includes('Building…')];
    };
    expect([run(), run()]).toEqual([
      [0, '', true],
      [0, '', false],
    ]);
    const later = Date.now() / 1_000 + 60;
    await utimes(join(folder, 'nest-cli.json'), later, later);
    expect(run()).toEqual([0, '', true]);
  });

  it('deletes no file of the last build, as start:dev may start the service at that moment', async () => {
    await mkdir(join(folder, 'dist/src'), { recursive: true });
    await writeFile(join(folder, 'dist/src/last.js'), '');
    execFileSync('npm', ['run', '--silent', 'build'], { cwd: folder });
    const files = await readdir(join(folder, 'dist/src'));
    expect(files).toEqual(expect.arrayContaining(['last.js', 'main.js']));
  });
});

describe('on a database', () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createDatabase();
  });

  it('the service of start:dev is restarted when a guide or .env changes, after a failure too', async () => {
    const PORT = String(await freePort());
    const program = project.start(
      process.execPath,
      ['scripts/restart-on-change.mjs', 'dist/src/main.js'],
      { DATABASE_URL, MIGRATE_ON_START: 'true', PORT },
    );
    await program.says(/^Animal Store Service at/m);
    const page = () =>
      fetch(`http://127.0.0.1:${PORT}/docs/guides/errors`).then(
        (response) => response.text(),
        () => 'not there',
      );
    await writeFile(join(project.folder, 'docs/guides/errors.md'), '# Changed');
    await until('the guide has changed', async () => (await page()).includes('>Changed</a></h1>'));

    await writeFile(join(project.folder, '.env'), 'DOCS=nonsense');
    await until('the service has failed', async () => (await page()) === 'not there');
    await writeFile(join(project.folder, '.env'), 'DOCS=off');
    await until('there is no guide', async () => (await page()).includes('route_not_found'));
    expect((await program.end('SIGTERM')).code).toBe(0);
  });

  it('start:dev ends by a signal that comes before the service can handle it', async () => {
    const starting = `process.kill(process.ppid, 'SIGTERM'); setInterval(() => {}, 1_000)`;
    const args = ['scripts/restart-on-change.mjs', '-e', starting];
    expect((await project.start(process.execPath, args, {}).outcome).code).toBe(0);
  });

  it('psql says where it is missing', async () => {
    const program = project.spawn('psql', [], { DATABASE_URL, PATH: project.folder });
    const { code, stderr } = await program.outcome;
    expect(code).toBe(1);
    expect(stderr).toMatch(/^psql is not installed: .+\n$/);
  });
});

const binaries = await systemBinaries();

// A developer's machine may have no psql; in CI, where this test must run, systemBinaries() fails then.
(binaries ? it : it.skip)(
  'npm run psql opens the embedded database, and hides its password',
  async () => {
    const project = await Project.create();
    const ask = ['-Atc', 'select current_database()', '-c', '\\! ps -o args= -p $PPID'];
    const program = project.start('npm', ['run', '--silent', 'psql', '--', ...ask], {});
    const { code, stdout, stderr } = await program.outcome;
    expect(code).toBe(0);
    expect(stdout).toMatch(/^postgres\n\S*psql -Atc /);
    expect(stderr).toMatch(/^DATABASE_URL is not set: this is the embedded PostgreSQL in .+\n$/);
    await project.remove();
  },
);
