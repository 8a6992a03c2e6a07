/** A PostgreSQL that a fault run may hurt: it keeps its port and its data through whatever is done to it. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { postgresAccount } from '../../dist/src/embedded-postgres/account.js';
import { findBinaries } from '../../dist/src/embedded-postgres/binaries.js';
import { administerKeys } from '../../dist/src/auth/api-keys.js';
import { APPLICATION_NAME } from '../../dist/src/database/data-source.js';
import { runMigrations } from '../../dist/src/schema/migrations.js';
import { freePort } from '../../scripts/free-port.mjs';
import { endsWithThis, family, signal } from './processes.js';

const ENVIRONMENT = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };

/** Few, so that a run can use them all up. */
const MAX_CONNECTIONS = 60;

/** Ends the service's sessions. */
export const TERMINATE_SESSIONS = `
  select pg_terminate_backend(pid) from pg_stat_activity where application_name = '${APPLICATION_NAME}'`;

export class Postgres {
  /** An API key. */
  key = '';
  /** @type {import('node:child_process').ChildProcess} */
  process;
  /** @type {Promise<unknown>} */
  ended;
  /** @type {number[]} Processes that are stopped. */
  frozen = [];

  /**
   * @param {string} folder
   * @param {number} port
   * @param {import('../../dist/src/embedded-postgres/account.js').Account} account
   * @param {string} binaries
   */
  constructor(folder, port, account, binaries) {
    this.folder = folder;
    this.port = port;
    this.account = account;
    this.binaries = binaries;
    this.data = join(folder, `data-${port}`);
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  }

  /** A running one with the schema and an API key. */
  static async create(folder) {
    const account = await postgresAccount(folder);
    const server = new Postgres(folder, await freePort(), account, await findBinaries(account));
    await chmod(folder, 0o755);
    await server.makeFolder(server.data);
    await promisify(execFile)(
      join(server.binaries, 'initdb'),
      ['-D', server.data, '--username=postgres', '--auth=trust', '--encoding=UTF8', '--locale=C'],
      { env: ENVIRONMENT, cwd: server.data, ...account.ids },
    );
    await server.start();
    await runMigrations(server.url);
    const { key } = await administerKeys(server.url, (keys) => keys.issue('faults'));
    server.key = key;
    return server;
  }

  async makeFolder(path) {
    const { uid, gid } = this.account.ids;
    await mkdir(path, { mode: 0o700, recursive: true });
    if (uid !== undefined && gid !== undefined) {
      await chown(path, uid, gid);
    }
  }

  /** Returns once it takes connections. */
  async start() {
    const settings = [
      'listen_addresses=127.0.0.1',
      'unix_socket_directories=',
      `max_connections=${MAX_CONNECTIONS}`,
      'wal_level=replica',
    ];
    for (;;) {
      const server = endsWithThis(
        spawn(
          join(this.binaries, 'postgres'),
          ['-D', this.data, '-p', String(this.port), ...settings.flatMap((it) => ['-c', it])],
          // In a group of its own, out of reach of a terminal's Ctrl-C.
          {
            env: ENVIRONMENT,
            cwd: this.data,
            stdio: 'ignore',
            detached: true,
            ...this.account.ids,
          },
        ),
      );
      this.process = server;
      this.ended = once(server, 'exit');
      while (server.exitCode === null && server.signalCode === null) {
        if (await this.answers()) {
          return;
        }
        await wait(10);
      }
      // Backends of the one before still hold its shared memory.
      await wait(50);
    }
  }

  async answers() {
    try {
      await this.query('select 1');
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Runs a statement on a connection of its own.
   *
   * @param {string} text
   * @param {unknown[]} [values]
   * @returns {Promise<any[]>} its rows.
   */
  async query(text, values) {
    const client = await this.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  async connect() {
    const client = new pg.Client({ connectionString: this.url, application_name: 'faults' });
    client.on('error', () => {});
    await client.connect();
    return client;
  }

  /** The service's sessions. */
  async sessions() {
    const [{ count }] = await this.query(
      `select count(*)::int from pg_stat_activity where application_name = '${APPLICATION_NAME}'`,
    );
    return count;
  }

  /** `kill -9` of the server and of every session's process. */
  async kill() {
    family(this.process.pid).forEach((pid) => signal(pid, 'SIGKILL'));
    await this.ended;
  }

  /** PostgreSQL's fast shutdown. */
  async stop() {
    this.process.kill('SIGINT');
    await this.ended;
  }

  freeze() {
    this.frozen = family(this.process.pid);
    this.frozen.forEach((pid) => signal(pid, 'SIGSTOP'));
  }

  thaw() {
    this.frozen.forEach((pid) => signal(pid, 'SIGCONT'));
  }

  /** A hot standby that has all that this one had, and follows it. */
  async createStandby() {
    const standby = new Postgres(this.folder, await freePort(), this.account, this.binaries);
    const session = await this.connect();
    await session.query(`select pg_backup_start('standby', true)`);
    await cp(this.data, standby.data, {
      recursive: true,
      filter: (path) => !/postmaster\.(pid|opts)$/.test(path),
    });
    const { rows } = await session.query('select labelfile from pg_backup_stop(false)');
    await session.end();
    await writeFile(join(standby.data, 'backup_label'), rows[0].labelfile);
    await writeFile(join(standby.data, 'standby.signal'), '');
    await writeFile(
      join(standby.data, 'postgresql.auto.conf'),
      `primary_conninfo = 'host=127.0.0.1 port=${this.port} user=postgres'\n`,
    );
    const { uid, gid } = this.account.ids;
    if (uid !== undefined) {
      execFileSync('chown', ['-R', `${uid}:${gid}`, standby.data]);
    }
    await chmod(standby.data, 0o700);
    await standby.start();
    while ((await this.query('select from pg_stat_replication')).length === 0) {
      await wait(20);
    }
    return standby;
  }

  async remove() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      await this.kill();
    }
    await rm(this.data, { recursive: true, force: true, maxRetries: 5 });
  }
}
