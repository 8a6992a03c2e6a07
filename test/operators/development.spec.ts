import { spawnSync, type SpawnSyncOptions } from 'node:child_process';
import { cp, mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { freePort } from '../../scripts/free-port.mjs';
import { ordinaryAccount } from '../support/account.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';
import { temporaryFolder } from '../support/temporary-folder.js';

describe('before a command that runs the build', () => {
  let folder: string;
  const write = async (file: string, text = 'export {};') => {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), text);
  };
  beforeEach(async () => {
    folder = await temporaryFolder();
    const files = 'package.json nest-cli.json tsconfig.json tsconfig.build.json scripts';
    for (const each of files.split(' ')) {
      await cp(join(PROJECT_ROOT, each), join(folder, each), { recursive: true });
    }
    await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
    await write('src/main.ts');
    await write('migrations/none.ts');
  });

  /** @param simulated what a process is to have in place of its own: `platform`, or `versions`. */
  function run(simulated: object = {}, options: SpawnSyncOptions = {}) {
    const simulate = `for (const [name, value] of Object.entries(${JSON.stringify(simulated)}))
      Object.defineProperty(process, name, { value });`;
    const args = [`--import=data:text/javascript,${simulate}`, 'scripts/build-when-needed.mjs'];
    const all = { cwd: folder, encoding: 'utf8', ...options } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, args, all);
    return [status, stdout, stderr];
  }
  const BUILDS = [0, '', 'Building…\n'];
  const NOTHING = [0, '', ''];

  it('it is announced on standard error, made only if something has changed, and deletes old migrations only', async () => {
    await write('dist/src/main.js');
    await write('dist/src/last.js');
    await write('dist/migrations/renamed.js');
    const before = Date.now() / 1_000 - 60;
    await utimes(join(folder, 'dist/src/main.js'), before, before);
    expect(run()).toEqual(BUILDS);
    expect(run()).toEqual(NOTHING);
    // start:dev may start the service at that moment.
    expect(await readdir(join(folder, 'dist/src'))).toContain('last.js');
    expect(await readdir(join(folder, 'dist/migrations'))).not.toContain('renamed.js');
  });

  // It builds three times.
  it('one that fails ends the command each time, and changes nothing of the one before', async () => {
    expect(run()).toEqual(BUILDS);
    await write('src/main.ts', 'export const count: number = "";');
    const failure = [1, '', expect.stringMatching(/src\/main\.ts.*\n.*The build failed\.\n$/s)];
    expect([run(), run()]).toEqual([failure, failure]);
    expect(await readFile(join(folder, 'dist/src/main.js'), 'utf8')).not.toContain('count');
  }, 120_000);

  it('packages of another lock file, or of another package manager, are refused with the remedy', async () => {
    expect(run()).toEqual(BUILDS);
    const name = 'package-lock.json';
    const lock = await readFile(join(PROJECT_ROOT, name), 'utf8');
    const changed = lock.replace(/("node_modules\/pg": \{\s*"version": ")/, '$19');
    const later = new Date(Date.now() + 60_000);
    const refusal = [1, '', expect.stringMatching(/Install them with npm: npm ci\n$/)];
    for (const [content, outcome] of [
      [lock, NOTHING],
      [changed, refusal],
    ] as const) {
      await write(name, content);
      await utimes(join(folder, name), later, later);
      expect(run()).toEqual(outcome);
    }
    await write(name, lock);
    await rm(join(folder, 'node_modules'));
    expect(run()).toEqual(refusal);
  });

  it('versions of Node that lack what is needed are refused, and no later ones', () => {
    expect(run()).toEqual(BUILDS);
    const refused = ['20.18.3', '21.7.0', '22.12.0', '23.11.0', '24.10.0'];
    const accepted = ['20.19.0', '22.13.0', '24.11.0', '25.0.0', '26.10.0', '30.0.0'];
    for (const node of [...refused, ...accepted]) {
      const refusal = [1, '', expect.stringContaining(`This is Node ${node}; the service needs `)];
      const outcome = refused.includes(node) ? refusal : NOTHING;
      expect([node, run({ versions: { ...process.versions, node } })]).toEqual([node, outcome]);
    }
  });

  it('Windows is refused, and Docker Compose named', () => {
    const refusal = [1, '', expect.stringContaining('Docker Compose')];
    expect(run({ platform: 'win32' })).toEqual(refusal);
  });

  it('a folder that sudo made is named, with the command that gives it back', async () => {
    const ids = ordinaryAccount();
    if (ids !== undefined) {
      await mkdir(join(folder, 'dist'));
      const refusal = `${join(folder, 'dist')} belongs to the user with the id 0, .*: sudo chown -R .* '${folder}'\n$`;
      expect(run({}, ids)).toEqual([1, '', expect.stringMatching(refusal)]);
    }
  });
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
