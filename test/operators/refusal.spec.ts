import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { query } from '../support/ask.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { dropDatabase, onServer } from '../support/service.js';
import type { Outcome } from '../support/program.js';
import { Project } from '../support/project.js';

const PASSWORD = 'sekrit';

const portOf = (server: Server) => (server.address() as AddressInfo).port;

describe('the service says in one clear message why it does not start', () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  let database: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createDatabase();
    database = new URL(DATABASE_URL).pathname.slice(1);
  });

  const embeddedDatabaseExists = () => existsSync(join(project.folder, '.data'));

  function expectRefusal({ code, stdout, stderr }: Outcome, why: RegExp): void {
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(why)]);
    expect(stderr).not.toMatch(/\n +at /);
    expect(stderr).not.toContain(PASSWORD);
  }

  it('in production without DATABASE_URL, in the log too', async () => {
    expect(await project.run('serve', [], { NODE_ENV: 'production' })).toEqual({
      code: 1,
      stdout: expect.stringMatching(/^\{.+"msg":"stopped"\}\n$/),
      stderr: 'DATABASE_URL must be set when NODE_ENV is production\n',
    });
    expect(embeddedDatabaseExists()).toBe(false);
  });

  it.each(['Production', 'staging'])(
    'with NODE_ENV=%s, and starts no database',
    async (NODE_ENV) => {
      const outcome = await project.run('serve', [], { NODE_ENV });
      expectRefusal(outcome, /^NODE_ENV must be one of production, development, test\n$/);
      expect(embeddedDatabaseExists()).toBe(false);
    },
  );

  it('naming every variable at fault, and no value', async () => {
    const names = ['PORT', 'DATABASE_URL', 'DATABASE_POOL_SIZE', 'MIGRATE_ON_START', 'LOG_LEVEL'];
    const faulty = Object.fromEntries(names.map((name) => [name, PASSWORD]));
    const outcome = await project.run('serve', [], faulty);
    expectRefusal(outcome, new RegExp(`^${names.map((name) => `${name} .+\n`).join('')}$`));
  });

  it('with migrations pending, naming the remedy, and applies none', async () => {
    const outcome = await project.run('serve', [], { DATABASE_URL });
    expectRefusal(
      outcome,
      /CreatePets1795046400000.*CreateApiKeys1795046460000.*\n.*npm run migration:run.*MIGRATE_ON_START=true/,
    );
    const shown = await project.run('migrate', ['show'], { DATABASE_URL });
    expect(shown.stdout).toMatch(/^(\[ \] \w+\n)+$/);
  });

  it('with HOST an address that does not exist', async () => {
    const HOST = 'nowhere.invalid';
    const variables = { DATABASE_URL, MIGRATE_ON_START: 'true', HOST };
    const { code, stderr } = await project.run('serve', [], variables);
    // Its log is on standard output.
    expectRefusal({ code, stdout: '', stderr }, /^(?!.*DATABASE_URL).*\bHOST\b/);
  });

  it('with a database in another encoding than UTF-8', async () => {
    const other = Object.assign(new URL(DATABASE_URL), { pathname: `/${database}_ascii` }).href;
    await onServer(
      `create database ${database}_ascii encoding 'SQL_ASCII' locale 'C' template template0`,
    );
    for (const [command, ...args] of [['serve'], ['migrate', 'run']] as const) {
      const outcome = await project.run(command, args, { DATABASE_URL: other });
      expectRefusal(outcome, /DATABASE_URL has the encoding SQL_ASCII/);
    }
    await dropDatabase(other);
  });

  it.each([
    [
      'usage',
      [['serve'], ['migrate', 'run']],
      /may use no schema of its search_path, which is .*public: grant usage on schema public/,
    ],
    [
      'create',
      [['migrate', 'run']],
      /^Database .+\nPostgreSQL reports: permission denied for table migrations\n$/,
    ],
  ] as const)('with a role that lacks %s on its schema', async (right, commands, why) => {
    const role = `${database}_without_${right}`;
    await query(DATABASE_URL, `create role ${role} login password '${PASSWORD}'`);
    await query(DATABASE_URL, `revoke ${right} on schema public from public`);
    const url = Object.assign(new URL(DATABASE_URL), { username: role, password: PASSWORD });
    for (const [command, ...args] of commands) {
      expectRefusal(await project.run(command, args, { DATABASE_URL: url.href }), why);
    }
    await query(DATABASE_URL, `grant usage on schema public to public`, `drop role ${role}`);
  });

  it('with PORT in use, and stops the embedded PostgreSQL', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const PORT = String(portOf(server));
    const { code, stderr } = await project.run('serve', [], { PORT });
    server.close();
    expectRefusal({ code, stdout: '', stderr }, new RegExp(`${PORT}.* PORT `));
    expect(embeddedDatabaseExists()).toBe(true);
    expect(await project.postmaster()).toBeUndefined();
  });
});

describe('a program names DATABASE_URL, and not its password, where the database', () => {
  const project = Project.ofTests();
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
    ['has a port that is no number', () => database('127.0.0.1:port/x')],
    ['has two hosts', () => database('127.0.0.1:1,127.0.0.1:2/x')],
    ['has a broken escape', () => `postgres://u:${PASSWORD}%zz@127.0.0.1:1/x`],
    ['closes the connection', () => database(`${at(closing)}/x`)],
    ['has no TLS where it must', () => database(`${at(withoutTls)}/x?sslmode=verify-full`)],
    ['has no certificate file', () => database('127.0.0.1:1/x?sslrootcert=/nowhere/ca.pem')],
    ['wants a password', () => testDatabase({ password: '' })],
    ['refuses the password', () => testDatabase({ password: PASSWORD })],
    ['does not exist', () => testDatabase({ pathname: '/nowhere' })],
  ])('%s', async (_, url) => {
    const DATABASE_URL = url();
    for (const command of FULL_LENGTH ? ['show', 'run'] : ['run']) {
      expectRefusal(await project.run('migrate', [command], { DATABASE_URL }));
    }
  });

  function expectRefusal({ code, stdout, stderr }: Outcome): void {
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('DATABASE_URL')]);
    expect(stderr).not.toMatch(/\n +at /);
    expect(stderr).not.toContain(PASSWORD);
  }
});

describe('.env in the project', () => {
  const project = Project.ofTests();
  const migrateShow = (variables = {}) => project.run('migrate', ['show'], variables);
  const write = (...lines: string[]) => writeFile(join(project.folder, '.env'), lines.join('\n'));

  it('is read, and the environment wins', async () => {
    await write('LOG_LEVEL=loud', 'DATABASE_POOL_SIZE=1');
    const both = await migrateShow();
    expect(both.stderr).toMatch(/^DATABASE_POOL_SIZE .*\nLOG_LEVEL .*\n$/);
    const one = await migrateShow({ LOG_LEVEL: 'info' });
    expect(one.stderr).toMatch(/^DATABASE_POOL_SIZE .*\n$/);
  });

  it('causes a warning for each variable that has no effect, and pg reads none of these', async () => {
    await write('DATABSE_POOL_SIZE=20', 'PGSSLROOTCERT=/ca.pem');
    const DATABASE_URL = await project.createDatabase();
    const variables = { DATABASE_URL, PGSSLNEGOTIATION: 'other', PGSSLMODE: 'prefer' };
    const { code, stderr } = await migrateShow(variables);
    expect(code).toBe(0);
    for (const name of ['PGSSLROOTCERT', 'PGSSLNEGOTIATION', 'PGSSLMODE']) {
      expect(stderr).toMatch(new RegExp(`^${name} is ignored: `, 'm'));
    }
    expect(stderr).toContain('\nDATABSE_POOL_SIZE is not read. Is it meant to be DATABASE_POOL_');
  });
});
