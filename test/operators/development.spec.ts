import { spawnSync } from 'node:child_process';
import { cp, mkdir, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { ordinaryAccount } from '../support/account.js';
import type { Ids } from '../support/program.js';
import { Project } from '../support/project.js';
import { temporaryFolder } from '../support/temporary-folder.js';

describe('before a command that runs the build', () => {
  let folder: string;
  const at = (file: string) => join(folder, file);
  const write = async (file: string, text = 'export {};') => {
    await mkdir(dirname(at(file)), { recursive: true });
    await writeFile(at(file), text);
  };
  beforeAll(async () => {
    folder = await temporaryFolder();
    const files = 'package.json nest-cli.json tsconfig.json tsconfig.build.json scripts';
    for (const each of files.split(' ')) {
      await cp(join(PROJECT_ROOT, each), at(each), { recursive: true });
    }
    await symlink(join(PROJECT_ROOT, 'node_modules'), at('node_modules'));
    await write('src/main.ts');
    await write('migrations/none.ts');
  });

  /** @param node the version that Node is to say it has. */
  function run(node = process.versions.node, ids: Ids = {}) {
    const simulated = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '${node}' })`;
    const args = [`--import=${simulated}`, 'scripts/build-when-needed.mjs'];
    const options = { cwd: folder, encoding: 'utf8', ...ids } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, args, options);
    return [status, stdout, stderr];
  }
  const refusal = (text: string) => [1, '', expect.stringMatching(text)];
  const BUILDS = [0, '', 'Building…\n'];
  const NOTHING = [0, '', ''];

  it('it is announced on standard error, made only if something has changed, and deletes old migrations only', async () => {
    await write('dist/src/main.js');
    await write('dist/src/last.js');
    await write('dist/migrations/renamed.js');
    const before = Date.now() / 1_000 - 60;
    await utimes(at('dist/src/main.js'), before, before);
    expect(run()).toEqual(BUILDS);
    expect(run()).toEqual(NOTHING);
    // start:dev may start the service at that moment.
    expect(await readdir(at('dist/src'))).toContain('last.js');
    expect(await readdir(at('dist/migrations'))).not.toContain('renamed.js');
  });

  it.each([
    ...['20.18.3', '21.19.0', '22.12.0', '23.11.0', '24.10.0'].map(
      (node) => [node, false] as const,
    ),
    ...['20.19.0', '22.13.0', '24.11.0', '25.0.0'].map((node) => [node, true] as const),
  ])('Node %s is accepted: %j', (node, isAccepted) => {
    const outcome = isAccepted ? NOTHING : refusal(`^This is Node ${node}; the service needs `);
    expect(run(node)).toEqual(outcome);
  });

  it('packages of another lock file, or of another package manager, are refused with the remedy', async () => {
    const lock = await readFile(join(PROJECT_ROOT, 'package-lock.json'), 'utf8');
    const later = new Date(Date.now() + 60_000);
    const runWith = async (content: string) => {
      await write('package-lock.json', content);
      await utimes(at('package-lock.json'), later, later);
      return run();
    };
    const refused = refusal('Install them with npm: npm ci\n$');
    const changed = lock.replace(/("node_modules\/pg": \{\s*"version": ")/, '$19');
    expect(await runWith(changed)).toEqual(refused);
    expect(await runWith(lock)).toEqual(NOTHING);
    await rm(at('node_modules'));
    expect(run()).toEqual(refused);
    await symlink(join(PROJECT_ROOT, 'node_modules'), at('node_modules'));
  });

  it('one that fails ends the command each time, and changes nothing of the one before', async () => {
    await write('src/main.ts', 'export const count: number = "";');
    const failure = refusal('src/main\\.ts[^]*The build failed\\.\n$');
    expect([run(), run()]).toEqual([failure, failure]);
    expect(await readFile(at('dist/src/main.js'), 'utf8')).not.toContain('count');
    const ids = ordinaryAccount();
    if (ids !== undefined) {
      // As sudo made it.
      const remedy = refusal(`${at('dist')} belongs to .*: sudo chown -R .* '${folder}'\n$`);
      expect(run(process.versions.node, ids)).toEqual(remedy);
    }
  });
});

describe('start:dev', () => {
  const project = Project.ofTests();

  it('restarts the service when a guide or .env changes, after a failure too', async () => {
    const DATABASE_URL = await project.createMigratedDatabase();
    const args = ['scripts/restart-on-change.mjs', 'dist/src/main.js'];
    const program = project.start(process.execPath, args, { DATABASE_URL });
    const starts = () => program.says(/^Animal Store Service at/m);
    const change = (file: string, text: string) => {
      program.stdout = '';
      return writeFile(join(project.folder, file), text);
    };
    await starts();
    await change('docs/guides/errors.md', '# Changed');
    await starts();
    await change('.env', 'DOCS=nonsense');
    await program.says(/^DOCS /m, 'stderr');
    await change('.env', 'DOCS=off');
    await starts();
    expect((await program.end('SIGTERM')).code).toBe(0);
  });
});
