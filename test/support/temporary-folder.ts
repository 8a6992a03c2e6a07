import { spawn } from 'node:child_process';
import { chmod, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'animal-store-tests-';

/** Waits for the end of its standard input, then ends the programs of its folder, and deletes it. */
const REMOVE = `
  read -r _
  pkill -TERM -f "(node|nginx|haproxy|pgbouncer) .*$PWD/"
  files() { find "$PWD" -name postmaster.pid 2>/dev/null; }
  for file in $(files); do
    pid=$(head -n 1 "$file")
    kill -QUIT "$pid"
    kill -CONT "$pid"
  done
  for _ in $(seq 100); do
    [ -n "$(files)" ] || break
    sleep 0.1
  done
  rm -rf "$PWD"`;

const removerOf = (folder: string, stdin: 'pipe' | 'ignore') =>
  // A session of its own: what ends the tests does not end it.
  spawn('sh', ['-c', REMOVE], { cwd: folder, detached: true, stdio: [stdin, 'ignore', 'ignore'] })
    // Another run has removed the folder.
    .on('error', () => {});

/** @returns a new folder that everybody can enter. It is removed once this process has ended, whatever ends it. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`));
  await chmod(folder, 0o755);
  // The pipe closes with this process.
  const remover = removerOf(folder, 'pipe');
  remover.unref();
  (remover.stdin as unknown as { unref(): void }).unref();
  return folder;
}

/** Removes the folders of processes that have ended, for example with the machine. */
export async function removeLeftOvers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const [, processId] = new RegExp(`^${PREFIX}(\\d+)-`).exec(name) ?? [];
    if (processId !== undefined && !isRunning(Number(processId))) {
      removerOf(join(tmpdir(), name), 'ignore');
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
