import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import type { Ids } from './program.js';

/** An ordinary account to run the service as, where these tests run as root; else `undefined`, and why is printed. */
export function ordinaryAccount(): Ids | undefined {
  // Those of nobody.
  const ids = { uid: 65_534, gid: 65_534 };
  const typeorm = join(PROJECT_ROOT, 'node_modules/typeorm/package.json');
  const reading = spawnSync(process.execPath, ['-p', `require(${JSON.stringify(typeorm)})`], ids);
  if (reading.status !== 0) {
    console.warn(`Not run as another account: only root can, if nobody can read ${typeorm}.`);
    return undefined;
  }
  return ids;
}
