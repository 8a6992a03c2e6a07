import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { samplesOf } from '../support/samples.js';
import { serviceOfTests } from '../support/service.js';

const MODULES = join(PROJECT_ROOT, 'test/clients/generators/node_modules');

const FILES = samplesOf('generated-clients').filter(({ file }) => file !== undefined);

const isNewEnough = Number(process.versions.node.split('.')[0]) >= 22;
const hasGenerators = isNewEnough && existsSync(MODULES);
if (!hasGenerators) {
  console.warn('Generators are not tested. On Node 22: npm ci --prefix test/clients/generators');
}

const isTested = hasGenerators || (isNewEnough && process.env['CI']);
// The generators need Node 22.19 and take 120 MB. In CI these tests must run on Node 24, and fail without them.
(isTested ? describe : describe.skip)('a client that is generated as the guide says', () => {
  const service = serviceOfTests();
  let folder: string;
  const run = async (file: string, ...args: string[]) => {
    const env = { ...process.env, BASE: `${service.origin}/v1`, KEY: service.key };
    return (await promisify(execFile)(file, args, { cwd: folder, env })).stdout;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'animal-store-generators-'));
    await symlink(MODULES, join(folder, 'node_modules'));
    for (const { file, code } of FILES) {
      await writeFile(join(folder, file!), code);
    }
    await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
    const compilerOptions = {
      strict: true,
      target: 'es2022',
      module: 'nodenext',
      skipLibCheck: true,
      rootDir: '.',
      outDir: 'dist',
      types: ['node'],
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    await run('bash', '-e', 'generate.sh');
    await run('npx', 'tsc');
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it.each(['openapi-typescript', 'hey-api'])(
    'compiles, and keeps every digit of an id: %s',
    async (generator) => {
      const { output } = FILES.find(({ file }) => file === `${generator}.ts`)!;
      expect((await run(process.execPath, `dist/${generator}.js`)).trim()).toBe(output!.text);
      const { text } = await service.api.get('/v1/pets').expect(200);
      expect(text).toContain('"categoryId":9007199254740993,');
      await service.query('truncate pets cascade');
    },
  );
});
