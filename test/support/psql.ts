import { spawnSync } from 'node:child_process';

/** Runs a script. @returns psql's exit code. */
export function psql(url: string, script: string): number | null {
  return spawnSync('psql', ['--no-psqlrc', '--quiet', url], { input: script }).status;
}
