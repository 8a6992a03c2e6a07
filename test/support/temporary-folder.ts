import { spawn, type StdioOptions } from 'node:child_process';
import { chmod, mkdtemp } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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

/** @returns a new folder that everybody can enter. It is removed once this process has ended, whatever ends it. */
export async function temporaryFolder(): Promise<string> {
  const cwd = await mkdtemp(join(tmpdir(), 'animal-store-tests-'));
  await chmod(cwd, 0o755);
  // The pipe closes with this process. The session is its own: what ends the tests does not end it.
  const stdio: StdioOptions = ['pipe', 'ignore', 'ignore'];
  const remover = spawn('sh', ['-c', REMOVE], { cwd, detached: true, stdio });
  remover.unref();
  (remover.stdin as Socket).unref();
  return cwd;
}
