import { execFileSync, spawnSync } from 'node:child_process';
import {
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { systemBinaries } from '../support/postgres.js';
import { freePort } from '../../scripts/free-port.mjs';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('a command that needs a build', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'animal-store-build-'));
    for (const source of ['scripts', 'src', 'migrations', 'node_modules/@nestjs/cli']) {
      await mkdir(join(folder, source), { recursive: true });
    }
    for (const file of ['nest-cli.json', 'tsconfig.json', 'tsconfig.build.json']) {
      await writeFile(join(folder, file), '{}');
    }
    const { engines } = JSON.parse(await readFile(join(PROJECT_ROOT, 'package.json'), 'utf8'));
    const scripts = { build: 'echo built && mkdir -p dist/src && touch dist/src/main.js' };
    await writeFile(join(folder, 'package.json'), JSON.stringify({ engines, scripts }));
    const script = 'scripts/build-when-needed.mjs';
    await cp(join(PROJECT_ROOT, script), join(folder, script));
  });
  afterAll(() => rm(folder, { recursive: true }));

  const run = () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['scripts/build-when-needed.mjs'],
      { cwd: folder, encoding: 'utf8' },
    );
    return { status, stdout, stderr };
  };

  it('says that it builds, on standard error, and builds only what changed', async () => {
    expect(run()).toEqual({ status: 0, stdout: '', stderr: 'Building…\nbuilt\n' });
    expect(run()).toEqual({ status: 0, stdout: '', stderr: '' });
    const later = Date.now() / 1_000 + 60;
    await utimes(join(folder, 'nest-cli.json'), later, later);
    expect(run().stderr).toBe('Building…\nbuilt\n');
  });
});

describe('npm run build', () => {
  it('deletes no file of the last build, as start:dev may start the service at that moment', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-build-'));
    await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
    for (const file of ['package.json', 'nest-cli.json', 'tsconfig.json', 'tsconfig.build.json']) {
      await cp(join(PROJECT_ROOT, file), join(folder, file));
    }
    await mkdir(join(folder, 'src'));
    await mkdir(join(folder, 'dist/src'), { recursive: true });
    await writeFile(join(folder, 'src/main.ts'), 'export {};');
    await writeFile(join(folder, 'dist/src/last.js'), '');
    execFileSync('npm', ['run', '--silent', 'build'], { cwd: folder });
    expect(await readdir(join(folder, 'dist/src'))).toEqual(
      expect.arrayContaining(['last.js', 'main.js']),
    );
    await rm(folder, { recursive: true });
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
    await until('the guide has changed', async () => (await page()).includes('<h1>Changed</h1>'));

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
