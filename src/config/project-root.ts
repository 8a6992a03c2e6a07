import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of `package.json`. It is the same for the source and for the build. */
export const PROJECT_ROOT = rootAbove(dirname(fileURLToPath(import.meta.url)));

/** The version in `package.json`. */
export const VERSION: string = JSON.parse(
  readFileSync(join(PROJECT_ROOT, 'package.json'), 'utf8'),
).version;

function rootAbove(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : rootAbove(dirname(folder));
}
