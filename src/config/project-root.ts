import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder of `package.json`. It is the same for the source and for the build. */
export const PROJECT_ROOT = rootAbove(import.meta.dirname);

export const VERSION: string = JSON.parse(
  readFileSync(join(PROJECT_ROOT, 'package.json'), 'utf8'),
).version;

function rootAbove(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : rootAbove(dirname(folder));
}
