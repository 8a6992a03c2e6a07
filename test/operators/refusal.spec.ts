import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { dropDatabase, onServer } from '../support/service.js';
import type { Outcome } from '../support/program.js';
import { Project } from '../support/project.js';

const PASSWORD = 'sekrit';

const portOf = (server: Server) => (server.address() as AddressInfo).port;

const writerOf = (text: string, encoding: BufferEncoding) => (file: string) =>
  writeFile(file, text, encoding);

function expectRefusal({ code, stdout, stderr }: Outcome, why: RegExp): void {
  expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(why)]);
  expect(stderr).not.toMatch(/\n +at /);
  expect(stderr).not.toContain(PASSWORD);
}

describe('the program says in one clear message why it does not start', () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createDatabase();
  });
  const nameOf = (url: string) => new URL(url).pathname.slice(1);

  it('with an invalid variable in .env, unless the environment has it too', async () => {
    const file = join(project.folder, '.env');
    await writeFile(file, 'LOG_LEVEL=loud\nDATABASE_POOL_SIZE=1');
    const outcome = await project.run('migrate', ['show'], { LOG_LEVEL: 'info' });
    expectRefusal(outcome, /^DATABASE_POOL_SIZE .*\n$/);
    await writeFile(file, '');
  });

  it.each([
    ['is a folder', /^\.env must be a file .+: EISDIR/, (file: string) => mkdir(file)],
    ['is not in UTF-8', /^\.env must be a file .+: ERR_ENC/, writerOf('\uFEFFA=1', 'utf16le')],
    ['begins with a byte order mark', /^LOG_LEVEL .+\n$/, writerOf('\uFEFFLOG_LEVEL=loud', 'utf8')],
  ])('with an .env that %s', async (_what, why, create) => {
    const file = join(project.folder, '.env');
    await rm(file, { force: true });
    await create(file);
    expectRefusal(await project.run('migrate', ['show'], { DATABASE_URL }), why);
    await rm(file, { recursive: true });
  });

  it('with migrations pending, naming the remedy, and applies none', async () => {
    const outcome = await project.run('serve', [], { DATABASE_URL });
    expectRefusal(
      outcome,
      /CreatePets1795046400000.*CreateApiKeys1795046460000.*\n.*npm run migration:run.*MIGRATE_ON_START=true/,
    );
    const { host, username } = new URL(DATABASE_URL);
    const where = `Database ${nameOf(DATABASE_URL)} at ${host}, role ${username}, schema public: `;
    expect(outcome.stderr.startsWith(where)).toBe(true);
    expect(outcome.stderr).toMatch(/ To use the embedded PostgreSQL, unset DATABASE_URL\.\n$/);
    expect((await runHere('migrate show', { DATABASE_URL })).stdout).toMatch(/^(\[ \] \w+\n)+$/);
  });

  it.each([
    ['names', '(id serial, timestamp bigint, name text)', `(timestamp, name) values (1, 'Users1')`],
    ['columns', '(id serial, migration text)', `(migration) values ('users')`],
    ['columns, and no rows', '(id serial, name text)', undefined],
  ])(
    'with the migrations of another program, of other %s, and changes nothing',
    async (_what, columns, row) => {
      const url = await project.createDatabase();
      await query(url, `create table migrations ${columns}`);
      await query(url, row ? `insert into migrations ${row}` : 'select');
      const state = `select (select json_agg(migrations) from migrations) as rows,
                          (select count(*)::int from pg_class) as relations`;
      const before = await query(url, state);
      for (const [command, ...args] of [['serve'], ['migrate', 'run'], ['keys', 'list']] as const) {
        const variables = { DATABASE_URL: url, MIGRATE_ON_START: 'true' };
        const outcome = await project.run(command, args, variables);
        expectRefusal(outcome, new RegExp(`Database ${nameOf(url)} at [^]*is another program's`));
      }
      const check = await runHere('check', { DATABASE_URL: url });
      expect([check.code, check.stdout]).toEqual([1, expect.stringContaining("another program's")]);
      expect(await query(url, state)).toEqual(before);
    },
  );

  it('with a database in another encoding than UTF-8', async () => {
    const other = `${DATABASE_URL}_ascii`;
    await onServer(
      `create database ${nameOf(other)} encoding 'SQL_ASCII' locale 'C' template template0`,
    );
    const outcome = await runHere('migrate run', { DATABASE_URL: other });
    expectRefusal(outcome, /DATABASE_URL has the encoding SQL_ASCII/);
    await dropDatabase(other);
  });

  const NO_USAGE =
    /may use no schema of its search_path, which is .*public: grant usage on schema public/;
  const NO_CREATE = /^Database .+\n.+\nPostgreSQL reports: permission denied for schema public\n$/;
  it.each([
    ['usage', 'keys list', NO_USAGE],
    ['usage', 'migrate run', NO_USAGE],
    ['create', 'migrate run', NO_CREATE],
  ])('with a role that lacks %s on its schema: %s', async (right, command, why) => {
    const role = `${nameOf(DATABASE_URL)}_without_${right}`;
    await query(DATABASE_URL, `create role ${role} login password '${PASSWORD}'`);
    await query(DATABASE_URL, `revoke ${right} on schema public from public`);
    const url = Object.assign(new URL(DATABASE_URL), { username: role, password: PASSWORD });
    expectRefusal(await runHere(command, { DATABASE_URL: url.href }), why);
    await query(DATABASE_URL, `grant usage on schema public to public`, `drop role ${role}`);
  });
});

describe('a command names DATABASE_URL, and not its password, where the database', () => {
  const closing = createServer((socket) => socket.end());
  const withoutTls = createServer((socket) => socket.once('data', () => socket.end('N')));
  beforeAll(() =>
    Promise.all(
      [closing, withoutTls].map((server) => once(server.listen(0, '127.0.0.1'), 'listening')),
    ),
  );
  afterAll(() => [closing, withoutTls].forEach((server) => server.close()));

  const database = (address: string) => `postgres://u:${PASSWORD}@${address}`;
  const at = (server: Server) => `127.0.0.1:${portOf(server)}`;
  const testDatabase = (change: Partial<URL>) =>
    Object.assign(new URL(process.env['TEST_DATABASE_URL']!), change).href;

  it.each([
    ['is not there', () => database('127.0.0.1:1/x')],
    ['has an unknown host', () => database('nowhere.invalid/x')],
    ['has a broken escape', () => `postgres://u:${PASSWORD}%zz@127.0.0.1:1/x`],
    ['closes the connection', () => database(`${at(closing)}/x`)],
    ['has no TLS where it must', () => database(`${at(withoutTls)}/x?sslmode=verify-full`)],
    ['has no certificate file', () => database('127.0.0.1:1/x?sslrootcert=/nowhere/ca.pem')],
    ['wants a password', () => testDatabase({ password: '' })],
    ['refuses the password', () => testDatabase({ password: PASSWORD })],
    ['does not exist', () => testDatabase({ pathname: '/nowhere' })],
  ])('%s', async (_, url) => {
    expectRefusal(await runHere('migrate run', { DATABASE_URL: url() }), /DATABASE_URL/);
  });
});
