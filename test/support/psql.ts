import { spawnSync } from 'node:child_process';

/** Runs a script. @returns psql's exit code. */
export function psql(url: string, script: string): number | null {
  return spawnSync('psql', ['--no-psqlrc', '--quiet', url], { input: script }).status;
}

/** `pg_dump -s`, but for the lines that are random in each dump. */
export function schema(url: string): string {
  const { stdout, status } = spawnSync('pg_dump', ['-s', url], { encoding: 'utf8' });
  expect(status).toBe(0);
  return stdout.replaceAll(/^\\(un)?restrict .+$/gm, '');
}
