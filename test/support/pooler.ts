import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../scripts/free-port.mjs';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { onServer } from './database.js';
import { PATH, Program } from './program.js';
import { temporaryFolder } from './temporary-folder.js';

/** Starts a PgBouncer in transaction mode, with so many sessions to a database. @returns the database's URL through it. */
export async function pgBouncerBefore(database: string, sessions: number) {
  const { hostname, port, username, password, pathname } = new URL(database);
  const folder = await temporaryFolder();
  const listenPort = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    `[databases]
    * = host=${hostname} port=${port} user=${username} password=${password}
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = ${listenPort}
    unix_socket_dir =
    auth_type = any
    pool_mode = transaction
    default_pool_size = ${sessions}
    ignore_startup_parameters = options,extra_float_digits
    `.replaceAll(/^ +/gm, ''),
  );
  // It does not run as root either.
  const ids = await postgresAccount(folder);
  const program = Program.start('pgbouncer', [file], { ids, env: { PATH } });
  await program.says(/process up/, 'stderr');
  const url = `postgres://pooled@127.0.0.1:${listenPort}${pathname}`;
  return { url, stop: () => program.end('SIGTERM') };
}

/** Settings of the database, as if they were of the role. The pooler must have no session yet. */
export async function setForSessions(
  database: string,
  settings: Record<string, string>,
): Promise<void> {
  const name = new URL(database).pathname.slice(1);
  for (const [setting, value] of Object.entries(settings)) {
    await onServer(`alter database ${name} set ${setting} = '${value}'`);
  }
}
