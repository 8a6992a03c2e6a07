import { readFile, stat } from 'node:fs/promises';
import { NoEmbeddedPostgres } from './no-embedded-postgres.js';

/** The operating system's account that PostgreSQL runs as. */
export interface Account {
  /** For `child_process.spawn`; empty where PostgreSQL runs as this process's own account. */
  ids: { uid?: number; gid?: number };
}

/**
 * PostgreSQL refuses to run as root. Where this process is root, another account is used: the one that owns the data
 * already, else `postgres`, else `nobody`.
 *
 * @throws NoEmbeddedPostgres if this process is root and there is none of them, or if it is not root and the data
 *   belongs to another account.
 */
export async function postgresAccount(dataFolder: string): Promise<Account> {
  const owner = (await stat(dataFolder).catch(() => undefined))?.uid;
  const self = process.getuid?.();
  if (self !== 0) {
    if (owner !== undefined && owner !== self) {
      throw new NoEmbeddedPostgres(`${dataFolder} belongs to another account.`);
    }
    return { ids: {} };
  }
  const accounts = (await readFile('/etc/passwd', 'utf8'))
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name, , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }));
  const account =
    accounts.find(({ uid }) => uid !== 0 && uid === owner) ??
    accounts.find(({ name }) => name === 'postgres') ??
    accounts.find(({ name }) => name === 'nobody');
  if (account === undefined) {
    throw new NoEmbeddedPostgres(
      'PostgreSQL does not run as root, and there is no account postgres or nobody to run it as.',
    );
  }
  return { ids: { uid: account.uid, gid: account.gid } };
}
