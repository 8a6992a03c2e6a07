import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './temporary-folder.js';

/** A named pipe that is open for reading, holds all that the system holds for a reader, and is not read. */
export async function unreadPipe() {
  const path = join(await temporaryFolder(), 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  try {
    for (;;) {
      writeSync(reader, 'x'.repeat(4096));
    }
  } catch {
    return { path, close: () => closeSync(reader) };
  }
}
