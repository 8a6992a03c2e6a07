import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { postgresAccount } from '../../src/embedded-postgres/embedded-postgres.js';
import { freePort } from '../../scripts/free-port.mjs';
import { PATH, Program } from './program.js';
import { temporaryFolder } from './temporary-folder.js';

/** A PgBouncer before one database; in transaction mode, with one session to it, unless `settings` say otherwise. */
export class PgBouncer {
  private constructor(
    /** A `postgres://` URL of the database, through the pooler. */
    readonly url: string,
    private readonly program: Program,
  ) {}

  static async before(
    url: string,
    settings: Record<string, string | number> = {},
  ): Promise<PgBouncer> {
    const { hostname, port, username, password, pathname } = new URL(url);
    const folder = await temporaryFolder();
    const listenPort = await freePort();
    const file = join(folder, 'pgbouncer.ini');
    const all = { pool_mode: 'transaction', default_pool_size: 1, ...settings };
    await writeFile(
      file,
      `[databases]
      * = host=${hostname} port=${port} user=${username} password=${password}
      [pgbouncer]
      listen_addr = 127.0.0.1
      listen_port = ${listenPort}
      unix_socket_dir =
      auth_type = any
      ${Object.entries(all)
        .map((setting) => setting.join(' = '))
        .join('\n')}
      ignore_startup_parameters = options,extra_float_digits
      `.replaceAll(/^ +/gm, ''),
    );
    // It does not run as root either.
    const ids = await postgresAccount(folder);
    const program = Program.start('pgbouncer', [file], { ids, env: { PATH } });
    await program.says(/process up/, 'stderr');
    return new PgBouncer(`postgres://pooled@127.0.0.1:${listenPort}${pathname}`, program);
  }

  async stop(): Promise<void> {
    await this.program.end('SIGTERM');
  }
}
