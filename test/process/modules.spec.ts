import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { PROJECT_ROOT } from '../../src/config/project-root.js';

/** Imports a program that ends at once for want of a valid `PORT`, and prints which CommonJS modules it loaded. */
const LIST = `
  import { createRequire } from 'node:module';
  process.on('exit', () => {
    process.exitCode = 0;
    console.log(Object.keys(createRequire(process.argv[1]).cache).join('\\n'));
  });
  await import(process.argv[1]);`;

async function modulesOf(program: string): Promise<string> {
  const file = pathToFileURL(join(PROJECT_ROOT, 'dist/src', `${program}.js`)).href;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '--eval', LIST, file],
    { env: { ...process.env, PORT: 'none' } },
  );
  return stdout;
}

describe('the modules of a process', () => {
  it('that serves include the driver, and not TypeORM and its memory', async () => {
    const modules = await modulesOf('main');
    expect(modules).toContain('/node_modules/pg/');
    expect(modules).not.toContain('/node_modules/typeorm/');
  });

  it('that migrates include TypeORM', async () => {
    expect(await modulesOf('cli/migrate')).toContain('/node_modules/typeorm/');
  });
});
