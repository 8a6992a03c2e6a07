import { once } from 'node:events';
import { chmod, rm, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { delimiter, dirname, join } from 'node:path';
import { parse } from 'yaml';
import { newApiKey } from '../../src/api-key.js';
import { readEnvironment } from '../../src/config/environment.js';
import { PET_STATUSES } from '../../src/pets/pet.entity.js';
import { requireMigrated } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { runHere } from '../support/command.js';
import { read } from '../support/documents.js';
import { statusWith } from '../support/pets.js';
import type { Outcome } from '../support/program.js';
import { Project } from '../support/project.js';
import { dropDatabase, onServer } from '../support/service.js';

/** Those that docs/operations.md lists. */
const COMMANDS = Array.from(
  read('docs/operations.md').matchAll(/^\| `animal-store ([a-z ]+)`/gm),
  ([, command]) => command!,
);
const PASSWORD = 'sekrit';

const nameOf = (url: string) => new URL(url).pathname.slice(1);

function expectRefusal({ code, stdout, stderr }: Outcome, why: RegExp): void {
  expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(why)]);
  expect(stderr).not.toMatch(/\n +at /);
  expect(stderr).not.toContain(PASSWORD);
}

const project = Project.ofTests();

describe('animal-store', () => {
  it('is found by its name, and lists its commands without any configuration', async () => {
    const program = join(project.folder, 'dist/src/main.js');
    // As npm and the Dockerfile do.
    await chmod(program, 0o755);
    await symlink(program, join(project.folder, 'animal-store'));
    const PATH = [project.folder, dirname(process.execPath), process.env['PATH']].join(delimiter);
    const variables = { PATH, PORT: 'none' };
    const outcome = await project.start('animal-store', ['--help'], variables).outcome;
    expect(outcome).toMatchObject({ code: 0, stderr: '' });
    const listed = [...outcome.stdout.matchAll(/^ {2}([a-z]+) .*  /gm)].map(([, name]) => name);
    expect(listed).toEqual([...new Set(COMMANDS.map((name) => name.split(' ')[0])), 'help']);
  });

  it.each(COMMANDS)('%s has help with its exit codes', async (command) => {
    const { code, stdout, stderr } = await runHere(`${command} --help`);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(new RegExp(`^Usage: animal-store ${command} `));
    expect(stdout).toMatch(/\nExit codes:\n {2}0 {2}.+\n {2}1 {2}.+\n/);
  });

  it.each([
    ['migrate', /Usage:/],
    ['migrate drop', /Usage:/],
    ['migrate run all', /Usage:/],
    ['mirgate run', /unknown command 'mirgate'\n\(Did you mean migrate\?\)/],
  ])('runs nothing for %s, and says what there is', async (command, message) => {
    const stderr = expect.stringMatching(message);
    expect(await runHere(command)).toEqual({ code: 1, stdout: '', stderr });
  });

  it("serves as docker compose's api with the key in LOCAL_API_KEY, and gets the signals, or says in its log why it refuses the key", async () => {
    const [command, ...args] = parse(read('docker-compose.yml')).services.api.entrypoint;
    const PATH = `${project.folder}:${process.env['PATH']}`;
    const DATABASE_URL = await project.createMigratedDatabase();
    const start = (LOCAL_API_KEY: string) =>
      project.start(command, args, { PATH, DATABASE_URL, LOCAL_API_KEY });
    const key = newApiKey();
    const program = start(key);
    const [, base] = await program.says(/^Animal Store Service at (\S+)$/m);
    expect(await statusWith(base!, key)).toBe(200);
    expect((await program.end('SIGTERM')).code).toBe(0);
    const refused = await start(`animalstore_${PASSWORD}`).outcome;
    expectRefusal(refused, /^LOCAL_API_KEY is not a key .+\.env/m);
  });
});

describe('the program says in one clear message why it does not start', () => {
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createDatabase();
  });
  /** As far as a start of the service concerns its migrations. */
  const start = (url: string, variables = {}) =>
    requireMigrated(url, readEnvironment({ DATABASE_URL: url, ...variables }));

  it.each<[string, RegExp, string, BufferEncoding]>([
    [
      'has an invalid variable, unless the environment has it too',
      /^DATABASE_POOL_SIZE .*\n$/,
      // A byte order mark is no part of the first name.
      '\uFEFFDATABASE_POOL_SIZE=1\nLOG_LEVEL=loud',
      'utf8',
    ],
    ['is not in UTF-8', /^\.env must be a file .+: ERR_ENC/, '\uFEFFA=1', 'utf16le'],
  ])('with an .env that %s', async (_what, why, text, encoding) => {
    const file = join(project.folder, '.env');
    await writeFile(file, text, encoding);
    const outcome = await project.run('migrate', ['show'], { DATABASE_URL, LOG_LEVEL: 'info' });
    expectRefusal(outcome, why);
    await rm(file);
  });

  it('with migrations pending, naming the database and the remedy, and applies none', async () => {
    const { host, username } = new URL(DATABASE_URL);
    const where = `Database ${nameOf(DATABASE_URL)} at ${host}, role ${username}, schema public: `;
    const remedy =
      'CreatePets1795046400000.*CreateApiKeys1795046460000.*\n.*npm run migration:run.*MIGRATE_ON_START=true.* To use the embedded PostgreSQL, unset DATABASE_URL\\.$';
    await expect(start(DATABASE_URL)).rejects.toThrow(new RegExp(`^${where}.*${remedy}`));
    expect((await runHere('migrate show', { DATABASE_URL })).stdout).toMatch(/^(\[ \] \w+\n)+$/);
  });

  it.each([
    ['names', '(id serial, timestamp bigint, name text)', `(timestamp, name) values (1, 'Users1')`],
    ['columns', '(id serial, migration text)', `(migration) values ('users')`],
  ])(
    'with the migrations of another program, of other %s, and changes nothing',
    async (_what, columns, row) => {
      const url = await project.createDatabase();
      await query(url, `create table migrations ${columns}`, `insert into migrations ${row}`);
      const before = await catalog(url);
      const foreign = new RegExp(`Database ${nameOf(url)} at [^]*is another program's`);
      for (const command of ['migrate run', 'keys list']) {
        expectRefusal(await runHere(command, { DATABASE_URL: url }), foreign);
      }
      await expect(start(url, { MIGRATE_ON_START: 'true' })).rejects.toThrow(foreign);
      const check = await runHere('check', { DATABASE_URL: url });
      expect([check.code, check.stdout]).toEqual([1, expect.stringContaining("another program's")]);
      expect(await catalog(url)).toEqual(before);
      expect(await query(url, 'select from migrations')).toHaveLength(1);
    },
  );

  it('with a database in another encoding than UTF-8', async () => {
    const other = `${DATABASE_URL}_ascii`;
    const options = `encoding 'SQL_ASCII' locale 'C' template template0`;
    await onServer(`create database ${nameOf(other)} ${options}`);
    const outcome = await runHere('migrate run', { DATABASE_URL: other });
    expectRefusal(outcome, /DATABASE_URL has the encoding SQL_ASCII/);
    await dropDatabase(other);
  });

  it('with PostgreSQL 13', async () => {
    const url = await project.createDatabase();
    // The tests have no such server. A function that is found before PostgreSQL's own tells another version.
    await query(
      url,
      'create schema old',
      `create function old.current_setting(name text) returns text language sql as
         $$select case name when 'server_version_num' then '130022' when 'server_version' then '13.22'
                  else pg_catalog.current_setting(name) end$$`,
      `alter database ${nameOf(url)} set search_path = old, pg_catalog`,
    );
    const why =
      /^The server of DATABASE_URL is PostgreSQL 13\.22; the service needs 14 or later\.\n$/;
    expectRefusal(await runHere('migrate run', { DATABASE_URL: url }), why);
  });

  it.each([
    [
      'usage',
      /may use no schema of its search_path, which is .*public: grant usage on schema public/,
    ],
    ['create', /^Database .+\n.+\nPostgreSQL reports: permission denied for schema public\n$/],
  ])('with a role that lacks %s on its schema', async (right, why) => {
    const role = `${nameOf(DATABASE_URL)}_without_${right}`;
    await query(DATABASE_URL, `create role ${role} login password '${PASSWORD}'`);
    await query(DATABASE_URL, `revoke ${right} on schema public from public`);
    const url = Object.assign(new URL(DATABASE_URL), { username: role, password: PASSWORD });
    expectRefusal(await runHere('migrate run', { DATABASE_URL: url.href }), why);
    await query(DATABASE_URL, `grant usage on schema public to public`, `drop role ${role}`);
  });
});

describe('a command names DATABASE_URL, and not its password, where the database', () => {
  const closing = createServer((socket) => socket.end());
  const withoutTls = createServer((socket) => socket.once('data', () => socket.end('N')));
  const servers = [closing, withoutTls];
  beforeAll(() =>
    Promise.all(servers.map((server) => once(server.listen(0, '127.0.0.1'), 'listening'))),
  );
  afterAll(() => servers.forEach((server) => server.close()));

  const database = (address: string) => `postgres://u:${PASSWORD}@${address}`;
  const at = (server: Server) => `127.0.0.1:${(server.address() as AddressInfo).port}`;
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

describe('animal-store seed', () => {
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createMigratedDatabase();
  });
  const seed = (args: string, variables = {}) =>
    runHere(`seed ${args}`.trim(), { DATABASE_URL, ...variables });
  const stored = async () => (await query(DATABASE_URL, 'select from pets')).length;

  it.each(['', '0', '-1', '1.5', '1e3', '100000001', 'many', '1 2'])(
    'refuses %j, which is no whole number in its range, with the usage',
    async (args) => {
      const stderr = expect.stringContaining('Usage: animal-store seed');
      expect(await seed(args)).toEqual({ code: 1, stdout: '', stderr });
    },
  );

  it('does nothing in production unless it is told twice', async () => {
    const NODE_ENV = 'production';
    const stderr = expect.stringMatching(/^Database .+\nNODE_ENV is production.+--yes/);
    expect(await seed('1', { NODE_ENV })).toEqual({ code: 1, stdout: '', stderr });
    expect(await stored()).toBe(0);
    expect(await seed('1 --yes', { NODE_ENV })).toMatchObject({ code: 0 });
    expect(await stored()).toBe(1);
  });

  it('creates as many pets as it is told, all of them valid and of every kind, without a time limit', async () => {
    await query(
      DATABASE_URL,
      'truncate pets cascade',
      `create function require_time() returns trigger language plpgsql as
         $$ begin if current_setting('statement_timeout') <> '0' then raise 'bound'; end if; return null; end $$`,
      'create trigger pets_time before insert on pets execute function require_time()',
      `alter database ${nameOf(DATABASE_URL)} set statement_timeout = '1min'`,
    );
    expect(await seed('1001')).toMatchObject({ code: 0, stdout: 'Created 1001 pets.\n' });
    const [created] = await query(
      DATABASE_URL,
      `select count(*)::int as pets, count(distinct name) > 300 as "areMany", count(distinct category_id)::int as categories,
              array_agg(distinct status order by status) as statuses,
              bool_and(name ~ '\\S' and name !~ '^\\s|\\s$') as "haveNames"
         from pets`,
    );
    const numbers = { pets: 1001, areMany: true, categories: 500 };
    expect(created).toEqual({ ...numbers, statuses: [...PET_STATUSES], haveNames: true });
  });
});
