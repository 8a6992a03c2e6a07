import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import type { Account } from './account.js';
import { NoEmbeddedPostgres } from './no-embedded-postgres.js';

/**
 * Finds PostgreSQL's programs in the package for this platform, creates the missing links to their libraries, and makes
 * sure that `account` can run them.
 *
 * @returns the folder that holds `initdb`, `pg_ctl` and `postgres`.
 * @throws NoEmbeddedPostgres
 */
export async function findBinaries(account: Account): Promise<string> {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
  let root: string;
  try {
    root = dirname(dirname(createRequire(import.meta.url).resolve(packageName)));
  } catch {
    throw new NoEmbeddedPostgres(
      `There is no PostgreSQL to embed on ${process.platform} ${process.arch} (${packageName} is not installed).`,
    );
  }
  const runs = async (folder: string) => {
    await linkLibraries(folder);
    const bin = join(folder, 'native', 'bin');
    await promisify(execFile)(join(bin, 'postgres'), ['--version'], account.ids);
    return bin;
  };
  return runs(root)
    .catch(async () => runs(await copyForEveryone(root)))
    .catch((error: Error) => {
      throw error instanceof NoEmbeddedPostgres
        ? error
        : new NoEmbeddedPostgres(`The embedded PostgreSQL does not run here: ${error.message}`);
    });
}

/**
 * Makes the links to the shared libraries, which a registry package cannot hold. The package's install script does so
 * too, but npm may have been told not to run any.
 */
async function linkLibraries(root: string): Promise<void> {
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  );
  for (const { source, target } of links) {
    const link = symlink(relative(dirname(target), source), join(root, target));
    await link.catch((error: NodeJS.ErrnoException) => {
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
async function copyForEveryone(root: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const owner = process.getuid?.() ?? 0;
  const copy = join(tmpdir(), `animal-store-postgres-${version}-${owner}`);
  const existing = await stat(copy).catch(() => undefined);
  if (existing?.uid === owner && (existing.mode & 0o022) === 0) {
    return copy;
  }
  if (existing !== undefined) {
    throw new NoEmbeddedPostgres(`${copy} belongs to someone else.`);
  }
  const unfinished = `${copy}.${process.pid}`;
  await mkdir(unfinished, { mode: 0o755 });
  const native = join(unfinished, 'native');
  await cp(join(root, 'native'), native, { recursive: true, verbatimSymlinks: true });
  await chmod(native, 0o755);
  await chmod(unfinished, 0o755);
  await rename(unfinished, copy).catch(() => rm(unfinished, { recursive: true, force: true }));
  return copy;
}
