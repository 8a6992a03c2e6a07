import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readEnvironment } from '../../src/config/environment.js';
import { connectToServe } from '../../src/database/connect.js';
import { standbyPool } from '../../src/database/data-source.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { Standbys } from '../../src/standbys/standbys.js';
import { query } from '../support/ask.js';
import { createMigratedDatabase, dropDatabase } from '../support/database.js';
import { createGrantedRole, dropGrantedRole, roleOf } from '../support/granted-role.js';
import { startService } from '../support/service.js';
import { until } from '../support/until.js';
import { temporaryFolder } from '../support/temporary-folder.js';

let owner: string;
let url: string;
let file: string;
beforeAll(async () => {
  owner = await createMigratedDatabase();
  url = await createGrantedRole(owner);
  file = join(await temporaryFolder(), 'url');
  await writeFile(file, `${url}\n`);
});
afterAll(async () => {
  await dropGrantedRole(owner);
  await dropDatabase(owner);
});

/** Changes the role's password, ends its sessions, and writes the file: as another host's, in various forms. */
async function rotate(password: string, write: (encoded: string) => string): Promise<void> {
  await query(owner, `alter role ${roleOf(owner)} password '${password}'`);
  await writeFile(file, write(encodeURIComponent(password)));
  const ended = `select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '${roleOf(owner)}'`;
  await query(owner, ended);
}

const FORMS: ((password: string) => string)[] = [
  (password) => `postgres://${roleOf(owner)}:${password}@127.0.0.2:1/other\n`,
  (password) =>
    `postgres://${roleOf(owner)}:${password}@a:1,b:2/x?target_session_attrs=read-write\r\n`,
  (password) => `postgres://${roleOf(owner)}:${password}@/x?host=/run/postgresql`,
  (password) => `postgresql://h/x?user=${roleOf(owner)}&password=${password}`,
  // As editors of Windows write it.
  (password) => `\uFEFFpostgres://${roleOf(owner)}:${password}@db/other\r\n`,
];

/** A session has little time to be opened, which a busy machine may exceed. With a wrong password, none ever is. */
const connects = (ask: () => Promise<unknown>) =>
  until('a session is opened', () =>
    ask().then(
      () => true,
      () => false,
    ),
  );

it.each(['the primary', 'a standby'])(
  'a session with %s is opened with the password that the file of its URL has then, and with nothing else of it',
  async (server) => {
    await rotate('first', () => Object.assign(new URL(url), { password: 'first' }).href);
    const environment = readEnvironment({ DATABASE_URL_FILE: file });
    const dataSource =
      server === 'the primary'
        ? await connectToServe(environment.DATABASE_URL!, environment)
        : undefined;
    const pool = standbyPool(environment.DATABASE_URL!, 1, file);
    const ask = () => (dataSource ? dataSource.query('select 1') : pool.query('select 1'));
    for (const [i, form] of FORMS.entries()) {
      await rotate(`p/#${i}`, form);
      await connects(ask);
    }
    await dataSource?.destroy();
    await pool.end();
  },
);

it('while the file is empty, or has the URL of another role, the password that it had last is used', async () => {
  await rotate('kept', () => Object.assign(new URL(url), { password: 'kept' }).href);
  const environment = readEnvironment({ DATABASE_URL_FILE: file });
  const pool = standbyPool(environment.DATABASE_URL!, 1, file);
  await rotate('later', () => Object.assign(new URL(url), { password: 'later' }).href);
  await connects(() => pool.query('select 1'));
  // Or it has another role's, until the process is restarted.
  for (const content of ['', 'postgres://other:password@h/x']) {
    await writeFile(file, content);
    await query(
      owner,
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '${roleOf(owner)}'`,
    );
    await connects(() => pool.query('select 1'));
  }
  await pool.end();
});

it('a service opens sessions with its standbys again once the file of their URL has the new password', async () => {
  await rotate('old', () => Object.assign(new URL(url), { password: 'old' }).href);
  await query(owner, `grant pg_read_all_stats to ${roleOf(owner)}`);
  // A busy machine may open one late.
  const limit = jest.replaceProperty(DATABASE_LIMITS, 'standby', 5_000 as 250);
  const service = await startService({ DATABASE_READ_URL_FILE: file }, owner);
  limit.restore();
  const reasons = () => service.get(Standbys).states.map(({ reason }) => reason);
  const say = (reason: RegExp) =>
    until(`the reason is ${reason}`, reasons, { holds: ([one]) => reason.test(one ?? '') });
  await rotate('new', () => url);
  await say(/^password authentication failed/);
  await rotate('new', () => Object.assign(new URL(url), { password: 'new' }).href);
  // It is the primary itself, which responds that it receives nothing.
  await say(/^it is behind/);
  await service.stop();
});
