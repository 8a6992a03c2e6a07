import { spawnSync } from 'node:child_process';
import { cp, mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { read } from '../support/documents.js';
import { Project } from '../support/project.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const SCRIPT = 'scripts/build-when-needed.mjs';

describe('before a command that runs the build', () => {
  const project = Project.ofTests();

  it.each([
    ...['20.18.3', '21.19.0', '22.12.0', '23.11.0', '24.10.0'].map(
      (node) => [node, false] as const,
    ),
    ...['20.19.0', '22.13.0', '24.11.0', '25.0.0'].map((node) => [node, true] as const),
  ])('Node %s is accepted: %j', async (node, isAccepted) => {
    const simulated = `data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '${node}' })`;
    const args = [`--import=${simulated}`, SCRIPT];
    const { code, stdout, stderr } = await project.start(process.execPath, args, {}).outcome;
    const refusal = expect.stringMatching(`^This is Node ${node}; the service needs `);
    expect([code, stdout, stderr]).toEqual(isAccepted ? [0, '', ''] : [1, '', refusal]);
  });

  it('Windows is refused', async () => {
    const simulated = `data:text/javascript,Object.defineProperty(process, 'platform', { value: 'win32' })`;
    const args = [`--import=${simulated}`, SCRIPT];
    const { code, stdout, stderr } = await project.start(process.execPath, args, {}).outcome;
    const refusal = expect.stringMatching(/^The service does not run on Windows\. .+\n$/);
    expect([code, stdout, stderr]).toEqual([1, '', refusal]);
  });

  it('it comes, of all scripts of package.json but that of production', () => {
    const { scripts } = JSON.parse(read('package.json'));
    const running = Object.keys(scripts).filter((name) =>
      / dist\/src\/main\.js/.test(scripts[name]),
    );
    const unprepared = running.filter((name) => scripts[`pre${name}`] !== `node ${SCRIPT}`);
    expect([running.length, unprepared]).toEqual([9, ['start:prod']]);
  });

  describe('in a checkout', () => {
    const COMPILER = 'node_modules/@nestjs/cli/bin/nest.js';
    const LATER = new Date(Date.now() + 60_000);
    const packages = (versions: object) => JSON.stringify({ packages: versions });
    let folder: string;

    async function write(file: string, content = '') {
      await mkdir(dirname(join(folder, file)), { recursive: true });
      await writeFile(join(folder, file), content);
    }

    function run(variables = {}) {
      const env = { ...process.env, ...variables };
      const script = spawnSync(process.execPath, [join(folder, SCRIPT)], { env });
      // It belongs to the command.
      expect(String(script.stdout)).toBe('');
      return [script.status, String(script.stderr)];
    }

    beforeEach(async () => {
      folder = await temporaryFolder();
      for (const file of ['package.json', SCRIPT]) {
        await cp(join(PROJECT_ROOT, file), join(folder, file));
      }
      await write('package-lock.json', packages({}));
      await write('node_modules/.package-lock.json', packages({}));
      for (const file of ['nest-cli.json', 'tsconfig.json', 'tsconfig.build.json', 'src/main.ts']) {
        await write(file);
      }
      await write('migrations/1-kept.ts');
      await write('dist/src/main.js');
    });

    it('builds if a source is newer than the build, and nothing stays of a migration that is gone', async () => {
      const kept = ['1-kept.d.ts', '1-kept.js', '1-kept.js.map'];
      for (const file of [...kept, '2-gone.d.ts', '2-gone.js', '2-gone.js.map']) {
        await write(`dist/migrations/${file}`);
      }
      await write(COMPILER);
      await utimes(join(folder, 'migrations/1-kept.ts'), LATER, LATER);
      expect(run()).toEqual([0, 'Building…\n']);
      expect((await readdir(join(folder, 'dist/migrations'))).toSorted()).toEqual(kept);
    });

    it('fails if the compiler does or is missing', async () => {
      await utimes(join(folder, 'src/main.ts'), LATER, LATER);
      const [none, remedy] = [
        'There is no build of these sources\\. ',
        'To build them: npm ci --inc',
      ];
      expect(run()).toEqual([1, expect.stringMatching(`^${none}${remedy}`)]);
      const production = expect.stringMatching(`^${none}NODE_ENV is production, .+${remedy}`);
      expect(run({ NODE_ENV: 'production' })).toEqual([1, production]);
      await write(COMPILER, `console.log('error TS1'); process.exit(2);`);
      expect(run()).toEqual([1, 'Building…\nerror TS1\nThe build failed.\n']);
    });

    it.each(['dev', 'devOptional', 'optional'])(
      'may lack a package that the lock file marks as %s, but not another, and none in another version',
      async (mark) => {
        const [used, other] = ['node_modules/used', 'node_modules/other'];
        await write(
          'package-lock.json',
          packages({
            '': {},
            [used]: { version: '1.0.0' },
            [other]: { version: '2.0.0', [mark]: true },
          }),
        );
        await utimes(join(folder, 'package-lock.json'), LATER, LATER);
        const refusal = [1, expect.stringMatching('^The packages .* are not installed')];
        for (const [installed, outcome] of [
          [{ [used]: { version: '1.0.0' } }, [0, '']],
          [{ [used]: { version: '1.0.0' }, [other]: { version: '2.0.0' } }, [0, '']],
          [{ [other]: { version: '2.0.0' } }, refusal],
          [{ [used]: { version: '1.0.1' } }, refusal],
          [{ [used]: { version: '1.0.0' }, [other]: { version: '2.0.1' } }, refusal],
        ]) {
          await write('node_modules/.package-lock.json', packages(installed!));
          expect(run()).toEqual(outcome);
        }
        // With the compiler, it is an installation for development.
        await write(COMPILER);
        await write('node_modules/.package-lock.json', packages({ [used]: { version: '1.0.0' } }));
        expect(run()).toEqual(mark === 'optional' ? [0, ''] : refusal);
      },
    );
  });
});

describe('npm run start:dev', () => {
  const project = Project.ofTests();

  it('starts the service again, without a drain, when what it reads at its start changes, also after it failed, and passes signals on', async () => {
    const service = `
      process.on('SIGINT', () => process.exit(7));
      const { DRAIN_SECONDS } = process.env;
      const [env, page] = ['.env', 'docs/interface.md'].map((file) => {
        try { return fs.readFileSync(file, 'utf8') } catch { return '' }
      });
      console.log('begun', DRAIN_SECONDS, env, page.slice(0, 9), fs.readdirSync('public').length);
      if (env === 'FAIL') process.exit(1);
      setInterval(() => {}, 1_000);`;
    const script = [process.execPath, 'scripts/restart-on-change.mjs', '-e', service];
    const program = project.start('env', ['-u', 'DRAIN_SECONDS', ...script], {});
    const write = (file: string, text: string) => writeFile(join(project.folder, file), text);
    await program.says(/^begun 0 /m);
    await write('docs/interface.md', 'CHANGED, ');
    await program.says(/^begun 0 {2}CHANGED/m);
    await write('.env', 'FAIL');
    await program.says(/^begun 0 FAIL/m);
    await write('.env', 'WELL');
    await program.says(/^begun 0 WELL/m);
    const count = (await readdir(join(project.folder, 'public'))).length + 1;
    await write('public/new.css', '');
    await program.says(new RegExp(`^begun 0 WELL CHANGED,  ${count}$`, 'm'));
    expect(await program.end('SIGINT')).toMatchObject({ code: 7, stderr: '' });
  });

  it.each(['SIGTERM', 'SIGHUP'] as const)(
    'passes %s on, and ends as the service, which has its variables, DRAIN_SECONDS too',
    async (signal) => {
      const service = `process.on('${signal}', () => process.exit(7)); console.log('begun', process.env.DRAIN_SECONDS, process.env.OTHER); setInterval(() => {}, 1_000);`;
      const args = ['scripts/restart-on-change.mjs', '-e', service];
      const variables = { DRAIN_SECONDS: '3', OTHER: 'set' };
      const program = project.start(process.execPath, args, variables);
      await program.says(/^begun /m);
      const stdout = 'begun 3 set\n';
      expect(await program.end(signal)).toEqual({ code: 7, stdout, stderr: '' });
    },
  );

  it.each([
    ['before it starts the service', `throw new Error('ENOSPC')`],
    ['later', `setTimeout(() => { throw new Error('ENOSPC') }, 500)`],
  ])('leaves no service if a file cannot be watched, %s', async (_when, fails) => {
    const module = `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module'; fs.watch = () => { ${fails} }; syncBuiltinESMExports();`;
    const service = `console.log(process.pid); setInterval(() => {}, 1_000);`;
    const simulated = `--import=data:text/javascript,${encodeURIComponent(module)}`;
    const args = [simulated, 'scripts/restart-on-change.mjs', '-e', service];
    // Once the service has ended too, which has the same standard output.
    const { code, stderr } = await project.start(process.execPath, args, {}).outcome;
    expect([code, stderr]).toEqual([1, expect.stringContaining('ENOSPC')]);
  });
});
