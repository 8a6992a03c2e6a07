import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

async function listed(config: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)(
    'node_modules/.bin/jest',
    ['--config', config, '--listTests', '--findRelatedTests', 'test/support/full-length.ts'],
    { cwd: PROJECT_ROOT },
  );
  return stdout.trim().split('\n');
}

it('the full fault run finds every test that has a full length', async () => {
  const found = [...(await listed('jest.config.js')), ...(await listed('jest.programs.config.js'))];
  const files = readdirSync(join(PROJECT_ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('spec.ts'))
    .map((file) => join(PROJECT_ROOT, 'test', file))
    .filter((file) => /^import \{ FULL_LENGTH \}/m.test(readFileSync(file, 'utf8')));
  expect(files.length).toBeGreaterThan(0);
  expect(found.toSorted()).toEqual(files.toSorted());
});
