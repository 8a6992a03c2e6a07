import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import type { Ids } from './program.js';

/** An ordinary account to run the service as, where these tests run as root; else `undefined`, and why is printed. */
export function ordinaryAccount(): Ids | undefined {
  if (process.getuid?.() !== 0) {
    console.warn('Not run as another account: only root can.');
    return undefined;
  }
  const [, uid, gid] =
    /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8')) ?? [];
  const ids = { uid: Number(uid), gid: Number(gid) };
  const typeorm = join(PROJECT_ROOT, 'node_modules/typeorm/package.json');
  const reading = spawnSync(process.execPath, ['-p', `require(${JSON.stringify(typeorm)})`], ids);
  if (reading.status !== 0) {
    console.warn(`Not run as another account: nobody cannot read ${typeorm}.`);
    return undefined;
  }
  return ids;
}
