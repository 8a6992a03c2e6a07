import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { administer } from '../../src/database/database.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { dropDatabase } from '../support/service.js';
import type { Outcome } from '../support/program.js';
import { Project } from '../support/project.js';

const PASSWORD = 'sekrit';

describe('the service says in one clear message why it does not start', () => {
  const project = Project.ofTests();
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createDatabase();
  });

  function embeddedDatabaseExists(): boolean {
    return existsSync(join(project.folder, '.data'));
  }

  it('in production without DATABASE_URL', async () => {
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
      expect(await project.run('serve', [], { NODE_ENV })).toEqual({
        code: 1,
        stdout: '',
        stderr: 'NODE_ENV must be one of production, development, test\n',
      });
      expect(embeddedDatabaseExists()).toBe(false);
    },
  );

  it('naming every variable at fault, and no value', async () => {
    const faulty = {
      PORT: PASSWORD,
      DATABASE_URL: PASSWORD,
      DATABASE_POOL_SIZE: PASSWORD,
      MIGRATE_ON_START: PASSWORD,
      PUBLIC_BASE_URL: PASSWORD,
      LOG_LEVEL: PASSWORD,
    };
    const { code, stdout, stderr } = await project.run('serve', [], faulty);
    expect([code, stdout]).toEqual([1, '']);
    const named = stderr
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[0]);
    expect(named.toSorted()).toEqual(Object.keys(faulty).toSorted());
    expect(stderr).not.toContain(PASSWORD);
  });

  it('with migrations pending, naming the remedy, and applies none', async () => {
    const { code, stdout, stderr } = await project.run('serve', [], { DATABASE_URL });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/CreatePets1795046400000.*CreateApiKeys1795046460000/);
    expect(stderr).toMatch(/npm run migration:run.*MIGRATE_ON_START=true/);

    const shown = await project.run('migrate', ['show'], { DATABASE_URL });
    expect(shown.stdout).toMatch(/^(\[ \] \w+\n)+$/);
  });

  it('with HOST an address that does not exist', async () => {
    const { code, stderr } = await project.run('serve', [], {
      DATABASE_URL,
      MIGRATE_ON_START: 'true',
      HOST: 'nowhere.invalid',
    });
    expect(code).toBe(1);
    expect(stderr).toMatch(/\bHOST\b/);
    expect(stderr).not.toMatch(/DATABASE_URL|\n +at /);
  });

  it('with a database in another encoding than UTF-8', async () => {
    const url = new URL(DATABASE_URL);
    url.pathname += '_ascii';
    const name = url.pathname.slice(1);
    await administer(process.env['TEST_DATABASE_URL']!, (dataSource) =>
      dataSource.query(
        `create database ${name} encoding 'SQL_ASCII' locale 'C' template template0`,
      ),
    );
    for (const [command, ...args] of [['serve'], ['migrate', 'run']] as const) {
      const { code, stderr } = await project.run(command, args, { DATABASE_URL: url.href });
      expect(code).toBe(1);
      expect(stderr).toMatch(/DATABASE_URL has the encoding SQL_ASCII/);
      expect(stderr).not.toMatch(/\n +at /);
    }
    await dropDatabase(url.href);
  });

  it('with a role that may use no schema', async () => {
    const role = `${new URL(DATABASE_URL).pathname.slice(1)}_stranger`;
    const asOwner = (sql: string) =>
      administer(DATABASE_URL, (dataSource) => dataSource.query(sql));
    await asOwner(`create role ${role} login password '${PASSWORD}'`);
    await asOwner(`revoke usage on schema public from public`);
    const url = Object.assign(new URL(DATABASE_URL), { username: role, password: PASSWORD });
    for (const [command, ...args] of [['serve'], ['migrate', 'run']] as const) {
      const outcome = await project.run(command, args, { DATABASE_URL: url.href });
      expect([outcome.code, outcome.stdout]).toEqual([1, '']);
      expect(outcome.stderr).toMatch(
        /may use no schema of its search_path, which is .*public: grant usage on schema public/,
      );
    }
    await asOwner(`grant usage on schema public to public; drop role ${role}`);
  });

  it('with a role that may not migrate', async () => {
    const role = `${new URL(DATABASE_URL).pathname.slice(1)}_reader`;
    const asOwner = (sql: string) =>
      administer(DATABASE_URL, (dataSource) => dataSource.query(sql));
    await asOwner(`create role ${role} login password '${PASSWORD}'`);
    await asOwner(`revoke create on schema public from public`);
    const url = Object.assign(new URL(DATABASE_URL), { username: role, password: PASSWORD });
    const outcome = await project.run('migrate', ['run'], { DATABASE_URL: url.href });
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toMatch(
      /^Database .+\nPostgreSQL reports: permission denied for table migrations\n$/,
    );
    expect(outcome.stderr).not.toContain(PASSWORD);
    await asOwner(`drop role ${role}`);
  });

  it('with PORT in use, and stops the embedded PostgreSQL', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const PORT = String((server.address() as AddressInfo).port);
    const { code, stderr } = await project.run('serve', [], { PORT });
    server.close();
    expect(code).toBe(1);
    expect(stderr).toMatch(/\bPORT\b/);
    expect(stderr).toContain(PORT);
    expect(stderr).not.toMatch(/\n +at /);
    expect(embeddedDatabaseExists()).toBe(true);
    expect(await project.postmaster()).toBeUndefined();
  });
});

describe('a program names DATABASE_URL, and not its password, where the database', () => {
  const closing = createServer((socket) => socket.end());
  const withoutTls = createServer((socket) => socket.once('data', () => socket.end('N')));
  let project: Project;
  beforeAll(async () => {
    project = await Project.create();
    await once(closing.listen(0, '127.0.0.1'), 'listening');
    await once(withoutTls.listen(0, '127.0.0.1'), 'listening');
  });
  afterAll(async () => {
    closing.close();
    withoutTls.close();
    await project.remove();
  });

  const database = (address: string) => `postgres://u:${PASSWORD}@${address}`;
  const at = (server: Server) => `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const testDatabase = (change: (url: URL) => void) => {
    const url = new URL(process.env['TEST_DATABASE_URL']!);
    change(url);
    return url.href;
  };

  it.each([
    ['is not there', () => database('127.0.0.1:1/x')],
    ['has an unknown host', () => database('nowhere.invalid/x')],
    ['has a port that is no number', () => database('127.0.0.1:port/x')],
    ['has two hosts', () => database('127.0.0.1:1,127.0.0.1:2/x')],
    ['has a broken escape', () => `postgres://u:${PASSWORD}%zz@127.0.0.1:1/x`],
    ['closes the connection', () => database(`${at(closing)}/x`)],
    ['has no TLS where it must', () => database(`${at(withoutTls)}/x?sslmode=verify-full`)],
    ['has no certificate file', () => database('127.0.0.1:1/x?sslrootcert=/nowhere/ca.pem')],
    ['wants a password', () => testDatabase((url) => (url.password = ''))],
    ['refuses the password', () => testDatabase((url) => (url.password = PASSWORD))],
    ['does not exist', () => testDatabase((url) => (url.pathname = '/nowhere'))],
  ])('%s', async (_, url) => {
    const DATABASE_URL = url();
    for (const command of FULL_LENGTH ? ['show', 'run'] : ['run']) {
      const outcome = await project.run('migrate', [command], { DATABASE_URL });
      expectRefusal(outcome);
    }
  });

  it('refuses what the sessions that serve ask for, as poolers do', async () => {
    const url = await project.createMigratedDatabase();
    const pooler = createServer((client) => {
      client.once('data', (startup) => {
        if (startup.includes('statement_timeout')) {
          client.end(errorResponse('08P01', 'unsupported startup parameter: options'));
        } else {
          const server = connect(Number(new URL(url).port), new URL(url).hostname);
          server.write(startup);
          client.pipe(server).pipe(client);
        }
      });
    }).listen(0, '127.0.0.1');
    await once(pooler, 'listening');
    const DATABASE_URL = Object.assign(new URL(url), { host: at(pooler) }).href;
    const outcome = await project.run('serve', [], { DATABASE_URL });
    expectRefusal(outcome);
    expect(outcome.stderr).toContain('DATABASE_POOLER=transaction');
    pooler.close();
  });

  function expectRefusal({ code, stdout, stderr }: Outcome): void {
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('DATABASE_URL');
    expect(stderr).not.toMatch(/\n +at /);
    expect(stderr).not.toContain(PASSWORD);
  }
});

describe('.env in the project', () => {
  const project = Project.ofTests();

  it('is read, and the environment wins', async () => {
    await writeFile(join(project.folder, '.env'), 'LOG_LEVEL=loud\nDATABASE_POOL_SIZE=1\n');
    const both = await project.run('migrate', ['show']);
    expect(both.stderr).toMatch(/LOG_LEVEL/);
    expect(both.stderr).toMatch(/DATABASE_POOL_SIZE/);

    const one = await project.run('migrate', ['show'], { LOG_LEVEL: 'info' });
    expect(one.stderr).not.toMatch(/LOG_LEVEL/);
    expect(one.stderr).toMatch(/DATABASE_POOL_SIZE/);
  });
});

/** A fatal ErrorResponse (PostgreSQL, section 53.7). */
function errorResponse(sqlState: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C${sqlState}\0M${message}\0\0`);
  const head = Buffer.from('E....');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}
