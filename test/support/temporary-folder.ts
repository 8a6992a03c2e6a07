import { spawn } from 'node:child_process';
import { chmod, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'animal-store-tests-';

/** Waits for the end of its standard input, then stops each PostgreSQL whose data are in the folder, and deletes it. */
const REMOVE = `
  read -r _
  files() { find "$1" -name postmaster.pid 2>/dev/null; }
  for file in $(files "$1"); do
    pid=$(head -n 1 "$file")
    kill -QUIT "$pid"
    kill -CONT "$pid"
  done
  for _ in $(seq 100); do
    [ -n "$(files "$1")" ] || break
    sleep 0.1
  done
  rm -rf "$1"`;

/** @returns a new folder that everybody can enter. It is removed once this process has ended, whatever ends it. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`));
  await chmod(folder, 0o755);
  // The pipe closes with this process. A session of its own: what ends the tests does not end it.
  const remover = spawn('sh', ['-c', REMOVE, 'sh', folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  remover.unref();
  (remover.stdin as unknown as { unref(): void }).unref();
  return folder;
}

/** Removes the folders of processes that have ended, for example with the machine. */
export async function removeLeftOvers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const [, processId] = new RegExp(`^${PREFIX}(\\d+)-`).exec(name) ?? [];
    if (processId !== undefined && !isRunning(Number(processId))) {
      spawn('sh', ['-c', REMOVE, 'sh', join(tmpdir(), name)], { detached: true, stdio: 'ignore' });
    }
  }
}

function isRunning(processId: number): boolean {
  try {
    return process.kill(processId, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
