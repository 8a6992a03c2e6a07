import { chmod, cp, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { requiredSettings } from '../../src/database/settings.js';
import { NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { describeWith } from '../support/describe-with.js';
import { DOCUMENTS, read } from '../support/documents.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { Project } from '../support/project.js';
import { startService } from '../support/service.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { until } from '../support/until.js';

const binaries = await systemBinaries();
const [guide, deployment] = [read('docs/dba.md'), read('docs/deploy.md')];

/** The numbered steps of a section, from their numbers to their ends. */
const stepsOf = (document: string, title: string) =>
  document
    .split(`\n## ${title}\n`)[1]!
    .split('\n## ')[0]!
    .split(/^(?=\d+\. )/m)
    .slice(1);

/** The code blocks of a section's steps, in their order. References to steps of docs/deploy.md are resolved. */
function blocksOf(title: string, language: 'sh' | 'sql', document = guide): string[] {
  const steps = stepsOf(document, title).flatMap((step) => {
    const [, first, last = first] =
      /\[steps? (\d)(?: (?:and|to) (\d))?\]\(deploy\.md#database\)/.exec(step) ?? [];
    return first === undefined
      ? step
      : stepsOf(deployment, 'Database').slice(Number(first) - 1, Number(last));
  });
  const blocks = steps.join('').matchAll(/^( {3,})```(\w+)\n([^]*?)^\1```$/gm);
  return [...blocks]
    .filter(([, , name]) => name === language)
    .map(([, indent, , block]) => block!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
}

const [EXPORTS, ...INSTALLATION] = blocksOf('Database', 'sh', deployment) as [string, ...string[]];
const [ROLES, , GRANT, CHECK] = INSTALLATION as [string, string, string, string];
/** Without the passwords. */
const [CREATE_ROLES] = ROLES.split('\n') as [string];

/** In the order in which they are typed. */
const PASSWORDS = {
  animals_migrator: 'migratorpassword',
  animals: 'servicepassword',
  animals_keys: 'keyspassword',
  animals_reader: 'readerpassword',
};
type Role = keyof typeof PASSWORDS;

describeWith('PostgreSQL', binaries)('docs/dba.md and docs/deploy.md, as they are written', () => {
  const project = Project.ofTests();
  /** Debian's PostgreSQL. */
  let server: Postgres;
  /** An embedded one, of a later major version. */
  let other: Postgres;
  beforeAll(async () => {
    for (const file of ['docs/roles.sql', 'docs/grants.sql']) {
      await cp(join(PROJECT_ROOT, file), join(project.folder, file));
    }
    const settings = ['shared_preload_libraries=pg_stat_statements', 'log_statement=all'];
    [server, other] = await Promise.all([
      Postgres.start([...settings, 'wal_level=logical'], binaries!),
      Postgres.start(),
    ]);
  });
  afterAll(() => Promise.all([server, other].map((each) => each.stop())));

  /** Runs a step's commands on `on`. @returns their standard output. */
  async function run(on: Postgres, commands: string): Promise<string> {
    const passwords = Object.entries({ postgres: on.password, ...PASSWORDS });
    const PGPASSFILE = join(project.folder, '.pgpass');
    const lines = passwords.map(([role, password]) => `*:*:*:${role}:${password}`);
    await writeFile(PGPASSFILE, lines.join('\n'), { mode: 0o600 });
    const [DUMP = ''] = (await readdir(project.folder)).filter((name) => name.endsWith('.dump'));
    const program = project.start('sh', ['-e', '-c', EXPORTS + commands], {
      PGHOST: '127.0.0.1',
      PGPORT: String(on.port),
      PGPASSFILE,
      MIGRATOR_PASSWORD: PASSWORDS.animals_migrator,
      SERVICE_PASSWORD: PASSWORDS.animals,
      KEYS_PASSWORD: PASSWORDS.animals_keys,
      DUMP,
    });
    if (commands.includes('\\password')) {
      // Twice each. Without a terminal, psql reads them from its standard input.
      const typed = Object.values(PASSWORDS).map((password) => `${password}\n${password}\n`);
      program.type(typed.join(''));
    }
    const { code, stdout, stderr } = await program.outcome;
    expect({ commands, code, stderr }).toEqual({ commands, code: 0, stderr: expect.any(String) });
    return stdout;
  }

  /** Runs all steps of a section, or `blocks` of code. @returns the standard output of each. */
  async function follow(steps: string | string[], on: Postgres): Promise<string[]> {
    const blocks = typeof steps === 'string' ? blocksOf(steps, 'sh') : steps;
    const outputs: string[] = [];
    for (const block of blocks) {
      outputs.push(await run(on, block));
    }
    return outputs;
  }

  const urlOf = (role: string, password: string, { port }: Postgres) =>
    `postgres://${role}:${password}@127.0.0.1:${port}/animals`;
  const asKeys = (on: Postgres) => urlOf('animals_keys', PASSWORDS.animals_keys, on);
  const serve = (on: Postgres) =>
    startService({}, urlOf('animals', PASSWORDS.animals, on), { owner: asKeys(on) });
  /** The rows as lists; several statements have none. */
  const rowsOf = async (url: string, sql: string) =>
    ((await query(url, sql)) ?? []).map((row) => Object.values<any>(row));
  const queryAs = (role: Role, sql: string) => rowsOf(urlOf(role, PASSWORDS[role], server), sql);
  const asSuperuser = (sql: string, on = server, database = 'animals') =>
    rowsOf(urlOf('postgres', on.password, on).replace(/\w+$/, database), sql);
  const PET = { name: 'Rex', categoryId: 1 };
  const FAILED = /^FAIL/m;

  it('installs, and tells no password to the log', async () => {
    const [created, migrated, granted, check] = await follow(INSTALLATION, server);
    expect(created).toMatch(/\nGRANT\n$/);
    // A service that runs meanwhile never lacks a right.
    expect(granted).toMatch(/^BEGIN\n([A-Z]+\n)+COMMIT\n$/);
    expect(migrated).toMatch(/Applied .+\.\n$/);
    expect(check).toMatch(/^ok {4}rights: /m);
    expect(check).not.toMatch(FAILED);
    const service = await serve(server);
    await service.anonymous.get('/health/ready').expect(200);
    const seen = await queryAs(
      'animals_migrator',
      `select distinct query_start is not null from pg_stat_activity where usename = 'animals'`,
    );
    expect(seen).toEqual([[true]]);
    await service.stop();
    expect(server.log.match(/alter user "?\w+"? password 'SCRAM-SHA-256\$/gi)).toHaveLength(4);
    for (const password of Object.values(PASSWORDS)) {
      expect(server.log).not.toContain(password);
    }
  });

  it('gives each role its rights and no more', async () => {
    const granted = await asSuperuser(
      `select distinct pg_get_userbyid(grantee) || ': ' || lower(privilege_type) || ' on ' || relname
         from (select oid, relacl as acl from pg_class
               union all select attrelid, attacl from pg_attribute) as rights
         join pg_class using (oid), lateral aclexplode(acl)
        where relnamespace = 'public'::regnamespace and grantee <> relowner`,
    );
    // On a table, or on some of its columns.
    const rights: Partial<Record<Role, string[]>> = {
      animals: [...NEEDED_RIGHTS, ...OTHER_RIGHTS],
      animals_keys: [
        'select on migrations',
        ...['select', 'insert', 'update'].map((right) => `${right} on api_keys`),
      ],
      animals_reader: ['api_keys', 'migrations', 'orders', 'pets'].map((it) => `select on ${it}`),
    };
    const expected = Object.entries(rights).flatMap(([role, all]) =>
      all.map((right) => `${role}: ${right}`),
    );
    expect(granted.flat().toSorted()).toEqual(expected.toSorted());
    const owners = await asSuperuser(
      `select distinct pg_get_userbyid(relowner) from pg_class where relnamespace = 'public'::regnamespace`,
    );
    expect(owners).toEqual([['animals_owner']]);
    const attributes = ['super', 'createdb', 'createrole', 'replication', 'bypassrls'];
    const more = await asSuperuser(
      `select rolname from pg_roles
        where rolname like 'animals%' and (${attributes.map((one) => `rol${one}`).join(' or ')})`,
    );
    expect(more).toEqual([]);
    const members = await asSuperuser(
      `select roleid::regrole || ' to ' || member::regrole from pg_auth_members
        where member::regrole::text like 'animals%' order by 1`,
    );
    expect(members.flat()).toEqual([
      'animals_owner to animals_migrator',
      'pg_read_all_stats to animals_owner',
    ]);

    const large = ['lo_create(0)', 'lo_creat(-1)', `lo_from_bytea(0, '')`, `lo_put(1, 0, '')`];
    const writes = large.map((call) => `begin read write; select ${call}`);
    const tables = ['create table t ()', 'create temporary table t ()'];
    const functions = await asSuperuser(
      `select format('select %s(1%s)', proname, repeat(', 1', pronargs - 1)) from pg_proc
        where pronamespace = 'pg_catalog'::regnamespace and proname ~ 'advisory' and proname !~ 'unlock'`,
    );
    const locks: string[] = functions.flat();
    expect(locks).toHaveLength(16);
    const own = 'select pg_try_advisory_xact_lock(1, 1)';
    const others = locks.filter((sql) => sql !== own);
    expect(await queryAs('animals', own)).toEqual([[true]]);
    // With MIGRATE_ON_START, it serves.
    expect(await queryAs('animals_migrator', own)).toEqual([[true]]);
    const denied: [Role, string[]][] = [
      ['animals', [...tables, ...writes, ...others, 'update api_keys set revoked_at = null']],
      ['animals_keys', [...tables, ...writes, ...locks, 'update api_keys set hash = hash']],
      ['animals_reader', [...writes, ...locks, 'select hash from api_keys']],
      ['animals_reader', tables.map((sql) => `begin read write; ${sql}`)],
    ];
    for (const [role, statements] of denied) {
      for (const sql of statements) {
        const outcome = await queryAs(role, sql).catch(({ code }) => code);
        expect([role, sql, outcome]).toEqual([role, sql, '42501']);
      }
    }
    expect(await queryAs('animals_reader', 'select name from api_keys')).toEqual([['test']]);
    const code = '25006';
    await expect(queryAs('animals_reader', 'delete from pets')).rejects.toMatchObject({ code });
    await asSuperuser('create role stranger login password $$x$$');
    for (const [role, code] of [
      ['stranger', '42501'],
      ['animals_owner', '28P01'],
    ] as const) {
      // prettier-ignore
      await expect(rowsOf(urlOf(role, 'x', server), 'select 1')).rejects.toMatchObject({ code });
    }
    await asSuperuser('delete from api_keys');
  });

  it.each(['Kubernetes', 'Docker'])('creates the first API key as with %s', async (platform) => {
    const block = blocksOf(platform, 'sh', deployment).find((each) => each.includes('keys create'));
    const [, inContainer] = /^\w+ exec -i .*?(sh -c \\\n.*\n)$/ms.exec(block!)!;
    const command = inContainer!.replace('animal-store keys', 'node dist/src/main.js keys');
    await writeFile(join(project.folder, 'keys-url.txt'), `${asKeys(server)}\n`);
    const variables = { NODE_ENV: 'production', DATABASE_URL_FILE: '/of/the/service' };
    const { code, stdout } = await project.start('sh', ['-c', command], variables).outcome;
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^animalstore_\S+\n$/)]);
    await asSuperuser('delete from api_keys');
  });

  it('shows no password in the arguments of a program', () => {
    const programs = DOCUMENTS.flatMap((file) =>
      Array.from(read(file).matchAll(/\b(?:psql|pg_\w+)\b[^|\n`]*/g), ([program]) => program),
    );
    expect(programs.length).toBeGreaterThan(20);
    expect(programs.filter((one) => /\$\{?\w*(URL|PASSWORD)|postgres:\/\//.test(one))).toEqual([]);
  });

  const majorOf = async (on: Postgres): Promise<number> =>
    (
      await asSuperuser(`select current_setting('server_version_num')::int / 10000`, on, 'postgres')
    )[0]![0];

  // As the administrator of a managed service is.
  it.each([
    ['installed', () => server],
    ['embedded', () => other],
  ])(
    'roles.sql serves a role with createrole and createdb only on the %s PostgreSQL, and says what is left out',
    async (_which, serverOf) => {
      const on = serverOf();
      // From then on, createrole has no rights on the roles of others.
      const further =
        (await majorOf(on)) < 16 ? [] : [expect.stringMatching(/^Not done.+pg_read_all_stats/)];
      const renamed = (file: string) => read(file).replaceAll(/\banimals/g, 'managed');
      await asSuperuser(`create role admin login createrole createdb password 'x'`, on, 'postgres');
      const [roles, grants] = ['docs/roles.sql', 'docs/grants.sql'].map(renamed) as [
        string,
        string,
      ];
      await writeFile(join(project.folder, 'managed.sql'), roles);
      const create = 'PGPASSWORD=x psql -X -U admin -d postgres -f managed.sql 2>&1';
      // As on a server that was set up without an encoding.
      const setDefault = (encoding: string) =>
        asSuperuser(
          `update pg_database set encoding = pg_char_to_encoding('${encoding}') where datname = 'template1'`,
          on,
          'postgres',
        );
      await setDefault('SQL_ASCII');
      for (const output of await follow([create, create], on)) {
        const left = Array.from(output.matchAll(/Not done[^]*?\./g), ([text]) => text);
        const locks = expect.stringMatching(/^Not done[^]+all memory for locks[^]+large objects\./);
        expect(left).toEqual([...further, locks]);
        expect(output).toMatch(/\nGRANT\n$/);
      }
      await setDefault('UTF8');
      const encoding = `select pg_encoding_to_char(encoding) from pg_database where datname = 'managed'`;
      expect(await asSuperuser(encoding, on, 'postgres')).toEqual([['UTF8']]);
      const names = Object.keys(PASSWORDS).map((role) => role.replace('animals', 'managed'));
      const passwords = names.map((role) => `alter role ${role} password 'x'`).join(';');
      const urlFor = (role: string, database = 'managed') =>
        `postgres://${role}:x@127.0.0.1:${on.port}/${database}`;
      await query(urlFor('admin', 'postgres'), passwords);
      const [migrator, DATABASE_URL] = names.map((role) => urlFor(role)) as [string, string];
      const migrated = await runHere('migrate run', { DATABASE_URL: migrator });
      expect(migrated).toMatchObject({ code: 0 });
      await query(migrator, grants);
      const stdout = expect.not.stringMatching(/^(FAIL|warn)/m);
      expect(await runHere('check', { DATABASE_URL })).toMatchObject({ code: 0, stdout });
      const owners = await rowsOf(DATABASE_URL, 'select distinct tableowner from pg_tables');
      expect(owners.flat()).toContain('managed_owner');
      const denied = { code: '42501' };
      await expect(rowsOf(DATABASE_URL, 'create table t ()')).rejects.toMatchObject(denied);
      await asSuperuser('drop database managed with (force)', on, 'postgres');
      for (const role of [...names, 'managed_owner', 'admin']) {
        await asSuperuser(`drop owned by ${role}; drop role ${role}`, on, 'postgres');
      }
    },
  );

  it('roles.sql takes no database that belongs to another role, and stops there', async () => {
    const renamed = read('docs/roles.sql').replaceAll(/\banimals/g, 'taken');
    await writeFile(join(project.folder, 'taken.sql'), renamed);
    await asSuperuser('create database taken', server, 'postgres');
    const create = 'psql -X -U postgres -d postgres -f taken.sql 2>&1 || echo failed';
    const remedy = 'alter database taken owner to taken_owner;';
    expect(await run(server, create)).toMatch(
      new RegExp(`taken belongs to another role\n[^]+ ${remedy}\n[^\n]+\nfailed\n$`),
    );
    await asSuperuser('drop database taken', server, 'postgres');
    for (const role of ['taken', 'taken_keys', 'taken_migrator', 'taken_reader', 'taken_owner']) {
      await asSuperuser(`drop owned by ${role}; drop role ${role}`, server, 'postgres');
    }
  });

  it('rolls back, and upgrades again', async () => {
    const last = MIGRATION_NAMES.at(-1)!;
    const [reverted] = await follow('Roll back', server);
    expect(reverted).toContain(`Reverted ${last}.`);
    // One of the two ways to apply migrations; the other one is a step of the installation.
    const steps = blocksOf('Upgrade', 'sh');
    expect(steps.filter((step) => INSTALLATION.includes(step))).toHaveLength(3);
    const others = steps.filter((step) => !step.includes('migration:run'));
    const outputs = await follow(others, server);
    expect(outputs[0]).toContain(`[ ] ${last}`);
    expect(outputs.at(-1)).toMatch(/^ok {4}migrations: all applied/m);
    expect(outputs.at(-1)).not.toMatch(FAILED);
  });

  it('leaves a service its advisory locks at any time while roles.sql runs again', () => {
    const roles = read('docs/roles.sql');
    const places = [
      'grant execute on function pg_try_advisory_xact_lock(integer, integer) to animals',
      'revoke execute on function %s from public',
    ].map((statement) => roles.indexOf(statement));
    expect(places[0]).toBeGreaterThan(0);
    expect(places[0]).toBeLessThan(places[1]!);
  });

  it('creates the roles and the database again without a change', async () => {
    const settings = `select rolname, rolcanlogin, rolconnlimit, rolpassword, setconfig, datname, datacl, nspacl,
        datdba::regrole, roleid::regrole
      from pg_authid left join pg_auth_members on member = pg_authid.oid
      left join pg_db_role_setting on setrole = pg_authid.oid
      cross join pg_database cross join pg_namespace
      where datname = 'animals' and nspname = 'public' and rolname like 'animals%' order by 1, setdatabase, roleid`;
    await asSuperuser(`alter role animals nologin`);
    const before = await asSuperuser(settings);
    expect(before.map((row) => row.slice(0, 3))).toEqual([
      ['animals', false, -1],
      ['animals_keys', true, 5],
      ['animals_migrator', true, -1],
      ['animals_owner', false, -1],
      ['animals_reader', true, 10],
    ]);
    await run(server, CREATE_ROLES);
    expect(await asSuperuser(settings)).toEqual(before);
    await asSuperuser('alter role animals login');
  });

  it('takes from all roles what PostgreSQL 14 gives them, and from the service what 1.0.0 gave it', async () => {
    const tries = {
      animals: ['create table t ()', 'create temporary table t ()', 'delete from api_keys'],
      stranger: ['select 1'],
    };
    await asSuperuser(`alter role stranger login password 'servicepassword'`);
    const outcomes = () =>
      Promise.all(
        Object.entries(tries).flatMap(([role, statements]) =>
          statements.map((sql) =>
            rowsOf(urlOf(role, PASSWORDS.animals, server), `begin; ${sql}; rollback`).then(
              () => 'allowed',
              ({ code }) => code,
            ),
          ),
        ),
      );
    const writes = `insert into api_keys (name, hash) values ('x', sha256('x'))`;
    tries.animals.push(writes, 'update api_keys set revoked_at = now()');
    await asSuperuser(
      `grant all on schema public to public; grant all on database animals to public;
       grant insert, update on api_keys to animals`,
    );
    const [allowed, denied] = ['allowed', '42501'];
    expect(await outcomes()).toEqual([allowed, allowed, denied, allowed, allowed, allowed]);
    await follow([CREATE_ROLES, GRANT], server);
    expect(await outcomes()).toEqual(Array(6).fill(denied));
    await asSuperuser('drop role stranger');
  });

  it('backs up only with the pg_dump of the major version of the server', async () => {
    const folder = await temporaryFolder();
    const backUpWith = async (version: string) => {
      const stub = `[ "$1" = --version ] && echo "pg_dump (PostgreSQL) ${version}" || echo dumped > "$DUMP.part"`;
      await writeFile(join(folder, 'pg_dump'), `#!/bin/sh\n${stub}\n`);
      await chmod(join(folder, 'pg_dump'), 0o755);
      const [dump] = blocksOf('Back up', 'sh');
      const report = 'cat -- *.dump && rm -- *.dump || echo failed';
      return run(server, `PATH=${folder}:$PATH\n(${dump}) 2>&1 && ${report}`);
    };
    const major = await majorOf(server);
    const later = major + 1;
    for (const version of [`${later}.4 (Debian)`, `${later}beta1`, '1.5', `${major}0.1`]) {
      const remedy = `Nothing was dumped: use the pg_dump of PostgreSQL ${major}.\n`;
      expect(await backUpWith(version)).toBe(`${remedy}failed\n`);
    }
    const own = `${major}.99`;
    expect(await backUpWith(own)).toBe(`pg_dump (PostgreSQL) ${own}\ndumped\n`);
  });

  it('lists what a backup fails at, leaves out, and needs first, and nothing else', async () => {
    const gaps = async () =>
      (await queryAs('animals_migrator', read('docs/backup.sql'))).map((row) =>
        row.filter((value) => value !== null).join(': '),
      );
    // What careful DBAs add.
    await asSuperuser(
      `set role animals_owner; create schema more; create table more.notes (id serial, note text);
       create index on pets (lower(name)); create view more.names as select name from pets;
       create function more.one() returns int language plpgsql as 'begin return 1; end';
       create policy all_pets on pets using (true)`,
    );
    expect(await gaps()).toEqual([]);
    await asSuperuser(
      `create table mine (); create table parts (id int) partition by range (id); create sequence more.numbers; create table forced ();
       alter table forced enable row level security, force row level security, owner to animals_owner;
       create extension citext; create extension pg_trgm; create extension postgres_fdw;
       alter table more.notes add word citext; create index on pets using gin (name gin_trgm_ops);
       create server elsewhere foreign data wrapper postgres_fdw;
       create foreign table more.far (id int) server elsewhere;
       create policy some_pets on pets to animals_reader using (true); create publication cdc for table pets;
       create function more.noted() returns event_trigger language plpgsql as 'begin end';
       create event trigger noted on ddl_command_end execute function more.noted();
       create function more.named(pets) returns text language sql as 'select $1.name';
       create cast (pets as text) with function more.named(pets); select lo_create(77777);
       create foreign data wrapper own; create language own handler plpgsql_call_handler;
       create subscription own connection '' publication own with (connect = false, slot_name = none)`,
    );
    const [fails, lacks, needs] = [
      'the backup fails at',
      'not in the backup',
      'the restore needs first',
    ];
    expect((await gaps()).toSorted()).toEqual(
      [
        `${fails}: forced: row-level security could hide rows`,
        `${fails}: mine: the migrator may not read it`,
        `${fails}: more.numbers: the migrator may not read it`,
        `${fails}: parts: the migrator may not read it`,
        ...['citext', 'pg_trgm', 'postgres_fdw'].map((one) => `${lacks}: extension ${one}`),
        `${lacks}: cast from pets to text`,
        `${lacks}: event trigger noted`,
        `${lacks}: foreign-data wrapper own`,
        `${lacks}: language own`,
        `${lacks}: large object 77777`,
        `${lacks}: publication cdc`,
        `${lacks}: server elsewhere`,
        `${lacks}: subscription own`,
        `${needs}: operator class gin_trgm_ops for access method gin: for index pets_name_idx`,
        `${needs}: role animals_reader: for policy some_pets on table pets`,
        `${needs}: server elsewhere: for foreign table more.far`,
        `${needs}: type citext: for column word of table more.notes`,
      ].toSorted(),
    );
    await asSuperuser(
      `drop subscription own; drop language own; drop foreign data wrapper own; select lo_unlink(77777);
       drop schema more cascade; drop table mine, parts, forced; drop publication cdc; drop index pets_name_idx, pets_lower_idx;
       drop server elsewhere cascade; drop policy some_pets on pets; drop policy all_pets on pets;
       drop extension citext, pg_trgm, postgres_fdw`,
    );
    expect(await gaps()).toEqual([]);
  });

  it('backs up, and restores on another server', async () => {
    const before = await serve(server);
    await before.api.post('/v1/pets').send(PET).expect(201);
    await before.stop();
    // The migrator could not restore it.
    await asSuperuser('create extension pg_stat_statements');
    await follow('Back up', server);

    const restored = await follow('Restore', other);
    expect(restored.at(-1)).not.toMatch(FAILED);
    const after = await serve(other);
    const send = (method: 'get' | 'post') =>
      after.anonymous[method]('/v1/pets').set('Authorization', `Bearer ${before.key}`);
    await send('post').send(PET).expect(201);
    expect((await send('get').expect(200)).body).toHaveLength(2);
    await after.stop();
  });

  it('upgrades to another major version by logical replication', async () => {
    await query(other.url, 'drop database animals');
    await run(other, ROLES);
    const title = 'Major upgrade of PostgreSQL';
    const [copySchema, copySequences] = blocksOf(title, 'sh').map(
      (block) => `export NEW_HOST=127.0.0.1 NEW_PORT=${other.port}\n${block}`,
    ) as [string, string];
    await run(server, copySchema);
    await run(other, GRANT);
    const [, publish, subscribe] = /^([^]+;\n)(create subscription .+)/.exec(
      blocksOf(title, 'sql')[0]!,
    )!;
    await asSuperuser(`${publish} alter role upgrade password 'upgradepassword'`);
    const passfile = await other.keep('.pgpass', '*:*:animals:upgrade:upgradepassword');
    const subscription = subscribe!.replace('PATH', passfile).replace('host=OLD', 'host=127.0.0.1');
    // PostgreSQL logs a statement that fails.
    await expect(asSuperuser(subscription.replace('5432', '1'), other)).rejects.toThrow('connect');
    await asSuperuser(subscription.replace('5432', String(server.port)), other);
    expect(other.log).toContain('STATEMENT:  create subscription upgrade');
    expect(other.log).not.toContain('upgradepassword');
    const published = await asSuperuser('select tablename from pg_publication_tables');
    await until('the tables are copied', async () => {
      const states = await asSuperuser('select srsubstate from pg_subscription_rel', other);
      return String(states) === String(published.map(() => 'r'));
    });
    const insert = `insert into pets (name, category_id) values ('Max', 1) returning id`;
    const [[id]] = (await asSuperuser(insert)) as [[string]];
    await until('the changes are there too', async () => {
      const lag = `select pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) from pg_stat_replication`;
      return String(await asSuperuser(lag)) === '0';
    });
    const behind = await run(other, `${CHECK.trim()} || true`);
    expect(behind).toMatch(/^FAIL {2}sequences: pets_id_seq is behind .*: select setval/m);
    await run(server, copySequences);
    await asSuperuser('drop subscription upgrade', other);
    expect(await run(other, CHECK)).not.toMatch(FAILED);
    const service = await serve(other);
    const { body } = await service.api.post('/v1/pets').send(PET);
    expect(BigInt(body.id)).toBe(BigInt(id) + 1n);
    await service.stop();
    const [end] = /drop publication[^`]+/.exec(stepsOf(guide, title).at(-1)!)!;
    await asSuperuser(end);
  });

  it('restores on the same server', async () => {
    const restored = await follow('Restore on the same server', server);
    expect(restored.at(-1)).not.toMatch(FAILED);
    // Without the one that was created after the backup.
    expect(await asSuperuser('select name from pets')).toEqual([['Rex']]);
  });

  it('recovers what there was at a time, and all that was archived also after that', async () => {
    const archived = await Postgres.start(['archive_mode=on', 'archive_timeout=60'], binaries);
    const archive = await archived.makeFolder('archive');
    await query(archived.url, `alter system set archive_command = 'cp %p ${archive}/%f'`);
    await query(archived.url, 'select pg_reload_conf()');
    await follow(INSTALLATION, archived);
    const insert = (name: string) =>
      asSuperuser(`insert into pets (name, category_id) values ('${name}', 1)`, archived);
    await insert('before the backup');
    const [all, earlier, later] = [
      await archived.baseBackup(),
      await archived.baseBackup(),
      await archived.baseBackup(),
    ];
    await insert('before the time');
    const [[time]] = (await asSuperuser('select clock_timestamp()::text', archived)) as [[string]];
    await insert('after the time');
    const end = 'select pg_walfile_name(pg_switch_wal())';
    const [[file]] = (await asSuperuser(end, archived)) as [[string]];
    const isArchived = `select last_archived_wal >= '${file}' from pg_stat_archiver`;
    await until('the last file of the log is archived', async () => {
      return String(await asSuperuser(isArchived, archived)) === 'true';
    });
    const [isBehind] = blocksOf('Point-in-time recovery', 'sh') as [string];
    expect(await run(archived, isBehind)).toBe('0\n');
    await archived.kill();

    expect(guide).toContain('set `archive_mode = off`');
    const recover = async (server: Postgres, target?: string) => {
      // A copy has the settings of production.
      await server.setRecovery(['archive_mode = on']);
      await server.setRecovery([
        'archive_mode = off',
        `restore_command = 'cp ${archive}/%f %p'`,
        "recovery_target_action = 'promote'",
        ...(target === undefined ? [] : [`recovery_target_time = '${target}'`]),
      ]);
      await server.launch();
      await until('it is recovered', async () => {
        return String(await asSuperuser('select pg_is_in_recovery()', server)) === 'false';
      });
      expect(await run(server, CHECK)).not.toMatch(FAILED);
      return (await asSuperuser('select name from pets order by id', server)).flat();
    };
    expect(await recover(earlier, time)).toEqual(['before the backup', 'before the time']);
    await asSuperuser('select pg_switch_wal()', earlier);
    expect(await recover(all)).toEqual(['before the backup', 'before the time', 'after the time']);
    await later.setRecovery([
      `restore_command = 'cp ${archive}/%f %p'`,
      "recovery_target_time = '2100-01-01'",
    ]);
    await later.launch();
    const message = 'recovery ended before configured recovery target was reached';
    await until('it has stopped', () => later.log.includes(message));
    expect(guide).toContain(message);
    await Promise.all([archived, all, earlier, later].map((each) => each.stop()));
  });

  it('changes the password of the service without a failed connection, and first finds what the new role lacks', async () => {
    const title = 'Change the password of the service';
    const [[create], [check]] = [blocksOf(title, 'sql'), blocksOf(title, 'sh')];
    expect(guide.indexOf('Export the new role')).toBeLessThan(guide.indexOf('changes the role in'));
    const url = urlOf('animals_b', 'other', server);
    const checked = () => run(server, `export SERVICE_URL=${url}\n${check!.trim()} || true`);
    // Neither is inherited.
    await asSuperuser(
      `alter role animals bypassrls; alter table pets enable row level security; create schema first;
       alter role animals set search_path = public; alter database animals set search_path = first;
       grant usage on schema first to animals; ${create} alter role animals_b password 'other'`,
    );
    expect(await checked()).toMatch(/^FAIL .+alter role animals_b set search_path = public/m);
    await asSuperuser('alter role animals_b set search_path = public');
    expect(await checked()).toMatch(/^FAIL .+alter role animals_b bypassrls/m);
    await asSuperuser('alter role animals_b bypassrls');
    expect(await checked()).not.toMatch(FAILED);
    await asSuperuser(
      `alter database animals reset search_path; alter role animals reset search_path; alter role animals nobypassrls;
       alter table public.pets disable row level security; drop schema first`,
    );
  });

  it('changes a pet, deletes it with its orders and its idempotency key, and imports pets', async () => {
    const section = stepsOf(guide, 'Change, delete or import pets').join('');
    const [change, importOf] = [/`(update .+?;)`/, /`(\\copy .+?)`/].map(
      (one) => one.exec(section)![1]!,
    );
    const [remove] = blocksOf('Change, delete or import pets', 'sql');
    await asSuperuser(
      `insert into pets (id, name, category_id) values (1000, 'Old', 1);
       insert into idempotency_keys (api_key_id, key, body_hash, pet_id) values (1, 'old', 'x', 1000)`,
    );
    await asSuperuser('insert into orders (pet_id) values (1000)');
    const names = () => asSuperuser('select name, status from pets order by id desc');
    await queryAs('animals_migrator', change!.replace('= 1;', '= 1000;'));
    expect((await names())[0]).toEqual(['Rex', 'sold']);
    await queryAs('animals_migrator', remove!.replaceAll('= 1;', '= 1000;'));
    expect(await names()).toEqual([['Rex', 'available']]);
    expect(await asSuperuser('select id from orders')).toEqual([]);
    expect(await asSuperuser(`select from idempotency_keys where key = 'old'`)).toEqual([]);
    await writeFile(join(project.folder, 'pets.csv'), 'Imported,7,pending\n');
    const psql = `psql -X -U animals_migrator -d animals -v ON_ERROR_STOP=1`;
    await run(server, `${psql} <<'END'\n${importOf}\nvacuum analyze pets;\nEND`);
    expect(await names()).toEqual([
      ['Imported', 'pending'],
      ['Rex', 'available'],
    ]);
    await asSuperuser(`delete from pets where name = 'Imported'`);
  });

  it('finds the key that leaked, as docs/operations.md says', async () => {
    const text = read('docs/operations.md').replaceAll(/\s+/g, ' ');
    const [, find] = /`(select id from api_keys where hash = .+?)`/.exec(text)!;
    const { code, stdout, stderr } = await runHere('keys create --name leaked', {
      DATABASE_URL: urlOf('animals_keys', PASSWORDS.animals_keys, server),
    });
    expect(code).toBe(0);
    const [key] = /animalstore_\S+/.exec(stdout)!;
    const [, id] = /^Key (\d+) for "leaked"/m.exec(stdout + stderr)!;
    expect(await queryAs('animals_keys', find!.replace('KEY', key))).toEqual([[id]]);
  });

  it('has queries that run', () =>
    asSuperuser(
      `create extension if not exists pg_stat_statements; ${read('docs/monitoring.sql')}`,
    ));

  /** The query of docs/monitoring.sql in which this text is. */
  const of = (text: string) =>
    read('docs/monitoring.sql')
      .split(/;\n/)
      .find((one) => one.includes(text))!;

  it('tells with docs/monitoring.sql the share of all blocks that were in the cache, the mean time of a statement of this database, and the oldest database first', async () => {
    /** What a query says if its view has these rows. */
    const told = (view: string, rows: string) =>
      asSuperuser(`with ${view} as (${rows})\n${of(`from ${view.split(' ')[0]}`)}`);
    const ofTables =
      'pg_statio_user_tables (relname, heap_blks_hit, idx_blks_hit, heap_blks_read, idx_blks_read)';
    const hits = await told(ofTables, `values ('pets', 40, 30, 10, 20), ('orders', 0, 0, 0, 0)`);
    expect(hits).toEqual([
      ['orders', null],
      ['pets', '0.7000'],
    ]);
    const statements = `select 4 as calls, 10.0::float8 as total_exec_time, 8 as rows, datname as query, oid as dbid from pg_database`;
    const means = await told('pg_stat_statements', statements);
    expect(means).toEqual([[4, 10, '2.50', 8, 'animals']]);
    const ofDatabases = 'pg_database (datname, datfrozenxid, datminmxid)';
    const ages = await told(ofDatabases, `values ('new', xid '20', xid '1'), ('old', '10', '1')`);
    expect(ages.map(([name]) => name)).toEqual(['old', 'new']);
  });

  it('shows in docs/monitoring.sql first the longest transaction and what has the most of other things, who waits for whom, what roles have, and how many files wait for the archive', async () => {
    const connectionString = urlOf('animals_migrator', PASSWORDS.animals_migrator, server);
    const clients = ['longer', 'shorter'].map(
      (application_name) => new Client({ connectionString, application_name }),
    );
    for (const client of clients) {
      await client.connect();
      await client.query('begin');
    }
    const sessions = (await asSuperuser(of('pg_stat_activity'))).map(([, , name]) => name);
    const [longer, shorter] = clients as [Client, Client];
    await longer.query('lock table orders');
    const lock = 'lock table orders in access share mode';
    const waits = shorter.query(lock);
    const blocked = await until('one waits for the other', async () => {
      const rows = await asSuperuser(of('pg_blocking_pids'));
      return rows.length > 0 && rows;
    });
    const [{ pid }] = (await longer.query('select pg_backend_pid() as pid')).rows;
    expect(blocked).toEqual([[expect.any(Number), [pid], expect.anything(), lock]]);
    // Only the query of sizes fails.
    const file = join(PROJECT_ROOT, 'docs/monitoring.sql');
    const shown = await run(server, `psql -X -U postgres -d animals -f ${file} 2>&1`);
    expect(shown.match(/ERROR:.+/g)).toEqual(['ERROR:  canceling statement due to lock timeout']);
    await longer.query('rollback');
    await waits;
    await Promise.all(clients.map((client) => client.end()));
    const roles = await asSuperuser(of('rolconnlimit'));
    expect(roles).toContainEqual(['animals_keys', null, 5, null]);
    expect(roles).toContainEqual([
      'animals_reader',
      null,
      10,
      ['default_transaction_read_only=on'],
    ]);
    expect(sessions.filter((name) => /^(long|short)er$/.test(name))).toEqual(['longer', 'shorter']);
    for (const [from, place] of [
      ['n_dead_tup', 2],
      ['seq_tup_read', 2],
      ['pg_stat_statements', 1],
    ] as const) {
      const most = (await asSuperuser(of(from))).map((row) => Number(row[place]));
      expect([from, most]).toEqual([from, most.toSorted((one, other) => other - one)]);
    }
    await asSuperuser(
      `do $$ begin execute format('copy (select) to %L',
         current_setting('data_directory') || '/pg_wal/archive_status/00000001000000000000000F.ready'); end $$`,
    );
    expect((await asSuperuser(of('pg_stat_archiver')))[0]!.at(-1)).toBe('1');
  });

  it('has in docs/orders.md the rights and the statements of a store', async () => {
    const blocks = read('docs/orders.md').matchAll(/```sql\n(.*?)```/gs);
    const [statements, role] = Array.from(blocks, ([, sql]) => sql!) as [string, string];
    await asSuperuser(`${role} alter role store password 'x'; truncate orders restart identity`);
    const asStore = (sql: string) => rowsOf(urlOf('store', 'x', server), sql);
    await asStore(statements);
    const statuses = await asStore('select status from orders order by id');
    expect(statuses).toEqual([['approved'], ['delivered']]);
    for (const sql of ['select from api_keys', 'delete from orders', 'delete from pets']) {
      await expect(asStore(sql)).rejects.toMatchObject({ code: '42501' });
    }
  });

  it('lists the settings of the sessions that serve requests', () => {
    const [, section = ''] = guide.split('\n## Session settings\n');
    const rows = section.matchAll(/^\| `(\w+)` +\| `([^`]+)`/gm);
    expect(Object.fromEntries([...rows].map(([, name, value]) => [name, value]))).toEqual(
      requiredSettings(),
    );
  });
});
