/** The tests that are shorter without `TEST_LENGTH=full`, in full length. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { endsWithThis } from './processes.js';
import { note } from './report.js';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

export async function fullLengthTests() {
  for (const script of ['test', 'test:programs']) {
    const args = [
      'run',
      '--silent',
      script,
      '--',
      '--findRelatedTests',
      'test/support/full-length.ts',
    ];
    const tests = endsWithThis(
      spawn('npm', args, {
        cwd: PROJECT,
        env: { ...process.env, TEST_LENGTH: 'full' },
        stdio: ['ignore', 'ignore', 'inherit'],
      }),
    );
    const [code] = await once(tests, 'exit');
    note(`Tests that npm run ${script} shortens hold in full length`, 'their exit code', [
      { name: 'exit code', value: code, is: 0 },
    ]);
  }
}
