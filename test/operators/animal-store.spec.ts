import fs from 'node:fs';
import { chmod, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { Client } from 'pg';
import { parse } from 'yaml';
import { newApiKey } from '../../src/api-key.js';
import { readEnvironment } from '../../src/config/environment.js';
import { print } from '../../src/cli/print.js';
import { requireMigrated, runMigrations } from '../../src/schema/migrations.js';
import { query } from '../support/ask.js';
import { catalog } from '../support/catalog.js';
import { runHere } from '../support/command.js';
import { read } from '../support/documents.js';
import { statusWith } from '../support/pets.js';
import type { Outcome } from '../support/program.js';
import { Project } from '../support/project.js';
import { createGrantedRole, dropGrantedRole, roleOf } from '../support/granted-role.js';
import { DOCUMENT } from '../support/contract.js';
import { createDatabase } from '../support/database.js';
import { Wire } from '../support/wire.js';
import { until } from '../support/until.js';

/** Those that docs/operations.md lists. */
const COMMANDS = Array.from(
  read('docs/operations.md').matchAll(/^\| `animal-store ([a-z ]+)`/gm),
  ([, command]) => command!,
);
const PASSWORD = 'sekrit';
const AWAY = `postgres://u:${PASSWORD}@127.0.0.1:1/x`;

/** The databases of other tests, on the same server, have a table with the same OID. */
const WAITING_FOR_PETS = `select from pg_locks where not granted and relation = 'pets'::regclass
  and database = (select oid from pg_database where datname = current_database())`;

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

  it('ends with exit code 1 and a sentence if a result does not fit on the disk', async () => {
    const DATABASE_URL = await project.createMigratedDatabase();
    const commands = ['--help', 'check', 'check --json', 'migrate show', 'migrate run', 'seed 3'];
    const ofKeys = ['keys create --name Rex', 'keys list', 'keys list --help'];
    // With pending migrations, which the others do not have.
    const sql = { 'migrate sql': await createDatabase() };
    const all = { ...Object.fromEntries([...commands, ...ofKeys].map((one) => [one, ''])), ...sql };
    for (const [command, url] of Object.entries(all)) {
      const line = `exec "$0" dist/src/main.js ${command} > /dev/full`;
      const variables = { DATABASE_URL: url || DATABASE_URL };
      const outcome = await project.start('sh', ['-c', line, process.execPath], variables).outcome;
      expectRefusal(outcome, /could not be written: ENOSPC[^\n]+\n$/);
    }
  });

  it("serves as docker compose's api with the key in LOCAL_API_KEY, gets the signals, and says when getPet was deprecated in any time zone", async () => {
    const [command, ...args] = parse(read('docker-compose.yml')).services.api.entrypoint;
    const PATH = `${project.folder}:${process.env['PATH']}`;
    const DATABASE_URL = await project.createMigratedDatabase();
    const LOCAL_API_KEY = newApiKey();
    const variables = { PATH, DATABASE_URL, LOCAL_API_KEY, TZ: 'Asia/Kathmandu' };
    const program = project.start(command, args, variables);
    const [, base] = await program.says(/^Animal Store Service at (\S+)$/m);
    expect(await statusWith(base!, LOCAL_API_KEY)).toBe(200);
    const headers = { Authorization: `Bearer ${LOCAL_API_KEY}` };
    const answer = await fetch(`${base}/pets/1`, { headers });
    const { Deprecation } = DOCUMENT.components.headers;
    expect(Deprecation.schema.enum).toEqual([answer.headers.get('deprecation')]);
    expect((await program.end('SIGTERM')).code).toBe(0);
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

  it('with an .env that has an invalid variable, unless the environment has it too, also if it is empty there', async () => {
    const file = join(project.folder, '.env');
    // A byte order mark is no part of the first name.
    await writeFile(file, '\uFEFFDATABASE_POOL_SIZE=1\nLOG_LEVEL=loud\nDOCS=none');
    const variables = { DATABASE_URL, LOG_LEVEL: 'info', DOCS: '' };
    const outcome = await project.run('migrate', ['show'], variables);
    expectRefusal(outcome, /^DATABASE_POOL_SIZE .*\n$/);
    await rm(file);
  });

  it('with migrations pending, naming the database and the remedy, and applies none', async () => {
    const { host, username } = new URL(DATABASE_URL);
    const where = `Database ${nameOf(DATABASE_URL)} at ${host}, role ${username}, schema public: `;
    const remedy =
      'CreatePets1795046400000.*CreateApiKeys1795046460000.*\n.*npm run migration:run.*MIGRATE_ON_START=true.* To use the embedded PostgreSQL, unset DATABASE_URL\\.$';
    await expect(start(DATABASE_URL)).rejects.toThrow(new RegExp(`^${where}.*${remedy}`));
    const pooled = { DATABASE_POOLER: 'transaction', MIGRATE_ON_START: 'true' };
    await expect(start(DATABASE_URL, { NODE_ENV: 'production', ...pooled })).rejects.toThrow(
      /npm run migration:run, without the pooler\.$/,
    );
    for (const command of ['seed 1', 'keys list']) {
      expectRefusal(
        await runHere(command, { DATABASE_URL }),
        /\nApply them with npm run migration/,
      );
    }
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

  it.each([
    [
      'PostgreSQL 13',
      `when 'server_version_num' then '130022' when 'server_version' then '13.22'`,
      /^The server of DATABASE_URL is PostgreSQL 13\.22; the service needs 14 or later\.\n$/,
    ],
    [
      'another encoding than UTF-8',
      `when 'server_encoding' then 'SQL_ASCII'`,
      /^The database of DATABASE_URL has the encoding SQL_ASCII/,
    ],
  ])('with %s', async (_what, settings, why) => {
    const url = await project.createDatabase();
    // The tests have no such database. A function that is found before PostgreSQL's own tells of one.
    await query(
      url,
      'create schema old',
      `create function old.current_setting(name text) returns text language sql as
         $$select case name ${settings} else pg_catalog.current_setting(name) end$$`,
      `alter database ${nameOf(url)} set search_path = old, pg_catalog`,
    );
    expectRefusal(await runHere('migrate run', { DATABASE_URL: url }), why);
  });

  it('with a role that may not create tables', async () => {
    const role = `${nameOf(DATABASE_URL)}_without_create`;
    await query(
      DATABASE_URL,
      `create role ${role} login password '${PASSWORD}'`,
      'revoke create on schema public from public',
    );
    const url = Object.assign(new URL(DATABASE_URL), { username: role, password: PASSWORD });
    const why = /^Database .+\n.+\nCreatePets\d+ failed: permission denied for schema public\n$/;
    expectRefusal(await runHere('migrate run', { DATABASE_URL: url.href }), why);
    await query(DATABASE_URL, `drop role ${role}`);
  });

  it.each([
    ['EACCES', 'A port below 1024 needs root or CAP_NET_BIND_SERVICE. Set PORT to a higher one.'],
    ['EADDRNOTAVAIL', 'Set HOST to an address of this machine, or to *.'],
  ])('with a reason to listen nowhere, such as %s', async (code, advice) => {
    const url = await project.createMigratedDatabase();
    const listen = `function () { process.nextTick(() => this.emit('error', Object.assign(new Error('no'), { code: '${code}', syscall: 'listen' }))) }`;
    const module = `import { Server } from 'node:net'; Server.prototype.listen = ${listen}`;
    const simulated = `--import=data:text/javascript,${encodeURIComponent(module)}`;
    const args = [simulated, join(project.folder, 'dist/src/main.js'), 'serve'];
    const variables = { DATABASE_URL: url };
    const outcome = await project.start(process.execPath, args, variables).outcome;
    expect([outcome.code, outcome.stderr]).toEqual([1, `no. ${advice}\n`]);
    expect(outcome.stdout).not.toContain('"fatal"');
  });

  it('with standbys of a database that has Citus, at once', async () => {
    const url = await project.createMigratedDatabase();
    await query(url, 'create table pg_dist_local_group as select 0 as groupid');
    const variables = { DATABASE_URL: url, DATABASE_READ_URL: url };
    const { code, stdout, stderr } = await project.run('serve', [], variables);
    const why = /^The database of DATABASE_URL has the extension citus, so DATABASE_READ_URL .+\n$/;
    expect([code, stderr]).toEqual([1, expect.stringMatching(why)]);
    expect(stdout).not.toMatch(/retry/i);
  });

  const testDatabase = (password: string) =>
    Object.assign(new URL(process.env['TEST_DATABASE_URL']!), { password }).href;

  it.each([
    ['is not there', `postgres://u:${PASSWORD}@127.0.0.1:1/x`],
    [
      'is on none of several servers',
      `postgres://u:${PASSWORD}@127.0.0.1:1,127.0.0.1:2/x?target_session_attrs=read-write`,
    ],
    ['has a broken escape', `postgres://u:${PASSWORD}%zz@127.0.0.1:1/x`],
    ['wants a password', testDatabase('')],
    ['refuses the password', testDatabase(PASSWORD)],
  ])('naming DATABASE_URL, and not its password, where the database %s', async (_, url) => {
    expectRefusal(await runHere('migrate run', { DATABASE_URL: url }), /DATABASE_URL/);
  });
});

describe('animal-store check', () => {
  let DATABASE_URL: string;
  beforeAll(async () => {
    DATABASE_URL = await project.createMigratedDatabase();
  });

  /** @returns the report, and what those checks say that fail. */
  async function check(variables: Record<string, string>) {
    const { code, stdout, stderr } = await runHere('check --json', variables);
    expect(stderr + stdout).not.toContain(PASSWORD);
    const { isOk, checks } = JSON.parse(stdout);
    expect(isOk).toBe(code === 0);
    const failed = checks.filter((one: any) => !one.isOk);
    return { checks, failed: failed.map(({ name, message }: any) => `${name}: ${message}`) };
  }

  it('says that all is well, in lines that a person can read, and in JSON', async () => {
    const { pathname, host, username, password } = new URL(DATABASE_URL);
    const { code, stdout } = await runHere('check', { DATABASE_URL });
    const DATABASE = `Database ${pathname.slice(1)} at ${host}, role ${username}, schema public`;
    expect(code).toBe(0);
    expect(stdout).toContain(
      `ok    database: ${DATABASE}\nok    TLS: off: the connection is not encrypted\nok    server version: PostgreSQL `,
    );
    expect(stdout).toContain(
      'ok    migrations: all applied\nok    rights: all that the service needs\nok    tables: as',
    );
    expect(stdout).not.toMatch(/FAIL|warn {2}/);
    expect(stdout).not.toContain(password);
    expect(await check({ DATABASE_URL })).toMatchObject({ failed: [] });
  });

  it.each<[string, RegExp, (url: string) => Record<string, string>]>([
    [
      'each variable that is invalid',
      /^configuration: PORT must be .+\nDATABASE_URL must be /,
      () => ({ PORT: PASSWORD, DATABASE_URL: PASSWORD }),
    ],
    ['a database out of reach', /^database: .*ECONNREFUSED/, () => ({ DATABASE_URL: AWAY })],
    [
      'a database that is read-only',
      /^writes: The database is read-only: default_transaction_read_only is on\.$/,
      (url) => ({ DATABASE_URL: `${url}?options=-c%20default_transaction_read_only%3Don` }),
    ],
    [
      'a role without the settings that a pooler leaves to it',
      /^sessions: [^]+\nalter role \w+ set statement_timeout = '1500';/,
      (url) => ({ DATABASE_URL: url, DATABASE_POOLER: 'transaction' }),
    ],
  ])('names %s, and no secret', async (_what, message, variables) => {
    expect((await check(variables(DATABASE_URL))).failed).toEqual([expect.stringMatching(message)]);
  });

  it('fails in time if a table is locked, after the results that it has, and names who holds the lock', async () => {
    const url = await project.createMigratedDatabase();
    const locker = new Client({ connectionString: url, application_name: 'a migration' });
    locker.on('error', () => {});
    await locker.connect();
    await locker.query('begin; lock table pets in access exclusive mode');
    const [{ pid }] = (await locker.query('select pg_backend_pid() as pid')).rows;
    // The check waits for this one too, which waits for the other one itself.
    const waiting = query(url, 'begin', 'lock table pets in access exclusive mode');
    await until('it waits', async () => {
      return (await query(url, WAITING_FOR_PETS)).length === 1;
    });
    const { code, stdout } = await runHere('check', { DATABASE_URL: url });
    await locker.end();
    await waiting;
    expect(code).toBe(1);
    expect(stdout).toContain('ok    migrations: all applied\n');
    const [tables, sequence, ...others] = stdout.match(/^FAIL.+$/gm)!;
    expect(tables).toMatch(`FAIL  tables: no result in 4 seconds. Session ${pid} `);
    expect(sequence).toMatch(
      new RegExp(
        `^FAIL  sequence of pets: no result in 4 seconds. Session ${pid} \\(role \\w+, program 'a migration'\\) blocks \\d+, \\d+\\. ` +
          `To end it, run: select pg_terminate_backend\\(${pid}\\);$`,
      ),
    );
    expect(others).toEqual([]);
    expect(stdout).toContain('ok    sequences: api_keys_id_seq');
  });

  it.each(['age(xid)', 'mxid_age(xid)'])(
    'fails once PostgreSQL gives out no more ids by %s, and not before',
    async (age) => {
      const of = async (count: number) => {
        // A function that is found before PostgreSQL's own.
        await query(
          DATABASE_URL,
          'create schema if not exists old',
          `create function old.${age} returns int language sql as 'select ${count}'`,
        );
        const path = '?options=-c%20search_path%3Dold,pg_catalog,public';
        const { failed } = await check({ DATABASE_URL: `${DATABASE_URL}${path}` });
        await query(DATABASE_URL, 'drop schema old cascade');
        return failed;
      };
      expect(await of(2_144_483_646)).toEqual([]);
      const refused = 'writes: The database has no transaction ids left for writes.';
      expect(await of(2_144_483_647)).toEqual([refused]);
    },
  );

  it.each(['docs/openapi.yaml', 'docs/guides', 'public'])(
    'fails if the program lacks %s, and reports all else',
    async (part) => {
      const [path, away] = [join(project.folder, part), join(project.folder, 'away')];
      await rename(path, away);
      const { code, stdout } = await project.run('check', [], { DATABASE_URL });
      await rename(away, path);
      expect([code, stdout.match(/^FAIL.+/gm)]).toEqual([
        1,
        [expect.stringMatching(/^FAIL {2}program: ENOENT/)],
      ]);
    },
  );

  it('passes with a warning while a standby is out of reach, and says why, without its password', async () => {
    const { failed, checks } = await check({ DATABASE_URL, DATABASE_READ_URL: AWAY });
    expect(failed).toEqual([]);
    expect(checks.at(-1).message).toMatch(/^127\.0\.0\.1:1: .*ECONNREFUSED/);
    expect(checks.at(-1)).toMatchObject({ name: 'standbys', isWarning: true });
  });

  it.each([
    ['pg_get_constraintdef(oid)', 'tables'],
    ['pg_database_collation_actual_version(oid)', 'collation'],
  ])('fails if PostgreSQL rejects %s, and reports all else', async (called, name) => {
    const owner = await project.createMigratedDatabase();
    const url = await createGrantedRole(owner);
    const results = async () =>
      Array.from((await runHere('check', { DATABASE_URL: url })).stdout.matchAll(/^.+$/gm), String);
    const before = await results();
    expect(before.filter((line) => !line.startsWith('ok'))).toEqual([]);
    await query(owner, `revoke execute on function ${called} from public`);
    const after = await results();
    const denied = expect.stringMatching(`^FAIL  ${name}: permission denied for function`);
    expect(after.filter((line) => line.startsWith('FAIL'))).toEqual([denied]);
    expect(after).toEqual(expect.arrayContaining(before.slice(-5)));
    await dropGrantedRole(owner);
  });

  it('warns if a crash could lose acknowledged pets, because of a setting of the role', async () => {
    const owner = await project.createMigratedDatabase();
    const url = await createGrantedRole(owner);
    await query(owner, `alter role ${roleOf(owner)} set synchronous_commit = off`);
    const { checks, failed } = await check({ DATABASE_URL: url });
    expect(failed).toEqual([]);
    const commits = {
      isWarning: true,
      message: expect.stringMatching(/^synchronous_commit is off/),
    };
    expect(checks).toContainEqual(expect.objectContaining({ name: 'commits', ...commits }));
    await dropGrantedRole(owner);
  });

  it('prints the statements that repair sequences which logical replication did not advance', async () => {
    const url = await project.createMigratedDatabase();
    await query(
      url,
      `insert into pets (name, category_id) select 'Rex', 1 from generate_series(1, 5)`,
      `insert into orders (pet_id) values (5)`,
      ...['pets', 'orders', 'migrations'].map((table) => `alter sequence ${table}_id_seq restart`),
    );
    const { code, stdout } = await runHere('check', { DATABASE_URL: url });
    expect(code).toBe(1);
    expect(stdout.match(/^.+ sequences: \w+ is \w+/gm)).toEqual([
      'warn  sequences: migrations_id_seq is behind',
      'FAIL  sequences: pets_id_seq is behind',
      'ok    sequences: api_keys_id_seq is past',
      'warn  sequences: orders_id_seq is behind',
    ]);
    await query(url, ...stdout.match(/select setval.+;$/gm)!);
    expect((await check({ DATABASE_URL: url })).failed).toEqual([]);
    const insert = `insert into pets (name, category_id) values ('Max', 1) returning id`;
    expect(await query(url, insert)).toEqual([{ id: '6' }]);
  });

  it.each([
    `select setval('pets_id_seq', 6, false)`,
    'alter sequence pets_id_seq restart with 1000',
    'alter table pets alter column id restart with 6',
  ])('says that a sequence is well after %s', async (sql) => {
    const url = await project.createMigratedDatabase();
    const insert = `insert into pets (name, category_id) select 'Rex', 1 from generate_series(1, 5)`;
    await query(url, insert, sql);
    const { checks } = await check({ DATABASE_URL: url });
    const messages = checks.filter(({ name }: any) => name === 'sequences');
    expect(messages[0]).toMatchObject({ isOk: true, message: expect.stringContaining('is past') });
  });

  it('says that it cannot tell of a sequence which the role may not read', async () => {
    const owner = await project.createMigratedDatabase();
    const url = await createGrantedRole(owner);
    await query(owner, `revoke select on pets_id_seq from ${roleOf(owner)}`);
    const { checks, failed } = await check({ DATABASE_URL: url });
    expect(failed).toEqual([]);
    const message = 'pets_id_seq may be behind the highest id: permission denied';
    const said = { isWarning: true, message: expect.stringContaining(message) };
    expect(checks).toContainEqual(expect.objectContaining(said));
    await dropGrantedRole(owner);
  });

  it.each([
    [
      'a trigger that raises',
      `create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
       create trigger refuse before insert on pets for each row execute function refuse()`,
      'no',
    ],
    [
      'a trigger that raises at the commit',
      `create function refuse() returns trigger language plpgsql as $$ begin raise 'late'; end $$;
       create constraint trigger refuse after insert on idempotency_keys deferrable initially deferred
         for each row execute function refuse()`,
      'late',
    ],
    [
      'a generated column that overflows',
      'alter table pets add small smallint generated always as (length(name) + 32767) stored',
      'smallint out of range',
    ],
  ])('with --write, tries a create, and tells of %s', async (_what, sql, message) => {
    const url = await project.createMigratedDatabase();
    const { code, stdout } = await runHere('check --write', { DATABASE_URL: url });
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^ok {4}create: works: /m)]);
    await query(url, sql);
    expect((await check({ DATABASE_URL: url })).failed).toEqual([]);
    const failing = await runHere('check --write', { DATABASE_URL: url });
    const said = expect.stringContaining(`FAIL  create: ${message}`);
    expect([failing.code, failing.stdout]).toEqual([1, said]);
    expect(await query(url, 'select from pets')).toEqual([]);
  });

  it('with --write, tries a create also before the migration that ends the check of its API key', async () => {
    const url = await project.createMigratedDatabase();
    await query(
      url,
      `insert into api_keys (name, hash) values ('a client', sha256(''))`,
      `alter table idempotency_keys add foreign key (api_key_id) references api_keys`,
    );
    const { stdout } = await runHere('check --write', { DATABASE_URL: url });
    expect(stdout).toMatch(/^ok {4}create: works: /m);
  });

  it.each([
    ['increment 10 maxvalue 14', '5'],
    ['maxvalue 9223372036854775807', '9223372036854775807'],
  ])('fails if no id is left in a sequence with %s after %s', async (options, last) => {
    const url = await project.createMigratedDatabase();
    await query(
      url,
      `alter sequence pets_id_seq ${options}`,
      `select setval('pets_id_seq', ${last})`,
    );
    const why = `sequences: pets_id_seq is at its MAXVALUE, ${options.split(' ').at(-1)}: new rows are rejected`;
    expect((await check({ DATABASE_URL: url })).failed).toEqual([expect.stringContaining(why)]);
  });

  it('warns of another version of the collation, and its remedy works', async () => {
    const icu = `template0 locale_provider icu icu_locale 'en' locale 'C'`;
    const url = await project.createDatabase(() => createDatabase(undefined, icu));
    await runMigrations(url);
    const warning = async () =>
      (await check({ DATABASE_URL: url })).checks.find((one: any) => one.isWarning)?.message;
    expect(await warning()).toBeUndefined();
    const record = `update pg_database set datcollversion = '0.1' where datname = current_database()`;
    await query(url, record);
    const old =
      /^indexes on text were built with version 0\.1 .+, run each alone: (reindex .+?;) (alter .+;)$/;
    const [, ...remedy] = old.exec(await warning())!;
    await query(url, ...remedy);
    expect(await warning()).toBeUndefined();
  });
});

it('animal-store seed creates as many pets as it is told, of every status, without a limit on its time, in production if it is told twice', async () => {
  const DATABASE_URL = await project.createMigratedDatabase();
  const seed = (args: string) => runHere(`seed ${args}`, { DATABASE_URL, NODE_ENV: 'production' });
  const stderr = expect.stringMatching(/^Database .+\nNODE_ENV is production.+--yes/);
  expect(await seed('1001')).toEqual({ code: 1, stdout: '', stderr });
  expect(await query(DATABASE_URL, 'select from pets')).toEqual([]);
  expect(await seed('1001 --yes')).toMatchObject({ code: 0, stdout: 'Created 1001 pets.\n' });
  // Many pets may take longer than the database allows a statement.
  await query(
    DATABASE_URL,
    'truncate pets cascade',
    `create function need_time() returns trigger language plpgsql as $$ begin
       if current_setting('statement_timeout') <> '0' then raise 'the time is limited'; end if;
       return null;
     end $$`,
    'create trigger need_time before insert on pets execute function need_time()',
    `alter database ${nameOf(DATABASE_URL)} set statement_timeout = '1min'`,
  );
  expect(await seed('1001 --yes')).toMatchObject({ code: 0, stdout: 'Created 1001 pets.\n' });
  const created = `select status, count(*)::int from pets group by status order by status`;
  expect(await query(DATABASE_URL, created)).toEqual([
    { status: 'available', count: 900 },
    { status: 'pending', count: 6 },
    { status: 'sold', count: 95 },
  ]);
});

it.each(['0', '-1', '1.5', '1e3', '100000001', '1000000000', 'many'])(
  'animal-store seed rejects %s pets with the usage',
  async (count) => {
    const stderr = expect.stringMatching(
      /It must be a whole number from 1 to 100000000\.[^]+Usage:/,
    );
    const rejected = { code: 1, stdout: '', stderr };
    // After it, what begins with a hyphen is no option.
    expect(await runHere(`seed -- ${count}`, { DATABASE_URL: AWAY })).toEqual(rejected);
  },
);

it('animal-store seed shows how far it is, and keeps what it created before it failed', async () => {
  const DATABASE_URL = await project.createMigratedDatabase();
  await query(
    DATABASE_URL,
    `create function fail() returns trigger language plpgsql as $$ begin raise 'no more'; end $$`,
    'create trigger fail before insert on pets for each row when (new.id > 60000) execute function fail()',
  );
  const { code, stderr } = await runHere('seed 100000', { DATABASE_URL });
  expect([code, stderr]).toEqual([1, expect.stringMatching(/ 50 % \| 50000 of 100000 \| \d+\/s /)]);
  expect(stderr).toMatch(/\nPostgreSQL reports: no more\n$/);
  const count = 'select count(*)::int from pets';
  expect(await query(DATABASE_URL, count)).toEqual([{ count: 50_000 }]);
});

it('animal-store seed says so if the connection is lost', async () => {
  const DATABASE_URL = await project.createMigratedDatabase();
  const wire = await Wire.to(DATABASE_URL);
  const locker = new Client({ connectionString: DATABASE_URL });
  await locker.connect();
  await locker.query('begin; lock table pets');
  const seeding = runHere('seed 1', { DATABASE_URL: wire.url });
  await until('it waits', async () => (await locker.query(WAITING_FOR_PETS)).rowCount === 1);
  wire.cut();
  const stderr = expect.stringMatching(/\nThe connection to the database was lost: .+\n$/);
  expect(await seeding).toEqual({ code: 1, stdout: '', stderr });
  await locker.end();
});

it('a result is written whole to a pipe that takes a part of it, or for a moment nothing', () => {
  let written = '';
  const write = jest.spyOn(fs, 'writeSync').mockImplementation(((_fd: number, bytes: Buffer) => {
    if (write.mock.calls.length % 2 === 0) {
      throw Object.assign(new Error('full'), { code: 'EAGAIN' });
    }
    written += String(bytes.subarray(0, 4));
    return Math.min(4, bytes.length);
  }) as typeof fs.writeSync);
  try {
    print('Created 3 pets.');
  } finally {
    write.mockRestore();
  }
  expect(written).toBe('Created 3 pets.\n');
});
