import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { samplesOf } from '../support/samples.js';
import { serviceOfTests } from '../support/service.js';

const FILES = samplesOf('generated-clients').filter(({ file }) => file !== undefined);

describe('a client that is generated as the guide says', () => {
  const service = serviceOfTests();
  let folder: string;
  const run = async (file: string, ...args: string[]) => {
    const env = { ...process.env, BASE: `${service.origin}/v1`, KEY: service.key };
    return (await promisify(execFile)(file, args, { cwd: folder, env })).stdout;
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'animal-store-generators-'));
    await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
    for (const { file, code } of FILES) {
      await writeFile(join(folder, file!), code);
    }
    await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
    await run('bash', '-e', 'generate.sh');
    const options = '--strict --target es2022 --module nodenext --skipLibCheck --types node';
    await run('npx', 'tsc', ...options.split(' '), 'openapi-typescript.ts');
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('compiles, and keeps every digit of an id', async () => {
    const { output } = FILES.find(({ file }) => file === 'openapi-typescript.ts')!;
    expect((await run(process.execPath, 'openapi-typescript.js')).trim()).toBe(output!.text);
    const { text } = await service.api.get('/v1/pets').expect(200);
    expect(text).toContain('"categoryId":9007199254740993,');
  });
});
