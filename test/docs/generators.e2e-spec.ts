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

  it('compiles, and keeps every digit of an id', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'animal-store-generators-'));
    await symlink(join(PROJECT_ROOT, 'node_modules'), join(folder, 'node_modules'));
    await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
    for (const { file, code } of FILES) {
      await writeFile(join(folder, file!), code);
    }
    const { file, output } = FILES.at(-1)!;
    const env = { ...process.env, BASE: `${service.origin}/v1`, KEY: service.key };
    const options = { cwd: folder, env };
    const { stdout } = await promisify(execFile)('bash', ['-e', file!], options);
    expect(stdout).toMatch(new RegExp(`\n${output!.text}\n$`));
    const { text } = await service.api.get('/v1/pets').expect(200);
    expect(text).toContain('"categoryId":9007199254740993,');
    await rm(folder, { recursive: true });
  });
});
