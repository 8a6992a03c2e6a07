import { cp, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { requiredSettings } from '../../src/database/settings.js';
import { NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { describeWith } from '../support/describe-with.js';
import { read } from '../support/documents.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { Project } from '../support/project.js';
import { startService } from '../support/service.js';
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
/** Without the passwords. */
const [CREATE_ROLES] = INSTALLATION[0]!.split('\n') as [string];
describeWith('PostgreSQL', binaries)('docs/dba.md and docs/deploy.md, as they are written', () => {
  const PASSWORDS = {
    MIGRATOR_PASSWORD: 'migratorpassword',
    SERVICE_PASSWORD: 'servicepassword',
    KEYS_PASSWORD: 'keyspassword',
  };
  const READER_PASSWORD = 'readerpassword';
  const project = Project.ofTests();
  /** Debian's PostgreSQL. */
  let server: Postgres;
  /** The embedded one, of a later major version. */
  let fresh: Postgres;
  beforeAll(async () => {
    for (const file of ['docs/roles.sql', 'docs/grants.sql']) {
      await cp(join(PROJECT_ROOT, file), join(project.folder, file));
    }
    [server, fresh] = await Promise.all([
      Postgres.start(
        ['shared_preload_libraries=pg_stat_statements', 'log_statement=all', 'wal_level=logical'],
        binaries!,
      ),
      Postgres.start(),
    ]);
  });
  afterAll(() => Promise.all([server, fresh].map((each) => each.stop())));

  /** Runs a step's commands on `on`. @returns their standard output. */
  async function run(on: Postgres, commands: string): Promise<string> {
    const { MIGRATOR_PASSWORD, SERVICE_PASSWORD, KEYS_PASSWORD } = PASSWORDS;
    const passwords = [
      `*:*:*:postgres:${on.password}`,
      `*:*:*:animals_migrator:${MIGRATOR_PASSWORD}`,
      `*:*:*:animals:${SERVICE_PASSWORD}`,
    ];
    const PGPASSFILE = join(project.folder, '.pgpass');
    await writeFile(PGPASSFILE, passwords.join('\n'), { mode: 0o600 });
    const [DUMP = ''] = (await readdir(project.folder)).filter((name) => name.endsWith('.dump'));
    const where = { PGHOST: '127.0.0.1', PGPORT: String(on.port), PGPASSFILE };
    const variables = { ...where, ...PASSWORDS, DUMP };
    const program = project.start('sh', ['-e', '-c', EXPORTS + commands], variables);
    if (commands.includes('\\password')) {
      // Twice each. Without a terminal, psql reads them from its standard input.
      const typed = [MIGRATOR_PASSWORD, SERVICE_PASSWORD, KEYS_PASSWORD, READER_PASSWORD];
      program.type(typed.map((password) => `${password}\n${password}\n`).join(''));
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
  const asKeys = (on: Postgres) => urlOf('animals_keys', PASSWORDS.KEYS_PASSWORD, on);
  const serve = (on: Postgres) =>
    startService({}, urlOf('animals', PASSWORDS.SERVICE_PASSWORD, on), { owner: asKeys(on) });

  async function queryAs(role: string, password: string, sql: string): Promise<unknown[]> {
    // Several statements have no rows.
    const rows = (await query(urlOf(role, password, server), sql)) ?? [];
    return rows.map((row) => Object.values(row));
  }
  const asSuperuser = (sql: string) => queryAs('postgres', server.password, sql);

  it('installs', async () => {
    const [, migrated, , check] = await follow(INSTALLATION, server);
    expect(INSTALLATION).toHaveLength(4);
    expect(migrated).toMatch(/Applied .+\.\n$/);
    expect(check).toMatch(/^ok {4}rights: /m);
    expect(check).not.toMatch(/^FAIL/m);
    const service = await serve(server);
    await service.anonymous.get('/health/ready').expect(200);
    await service.stop();
    await asSuperuser('delete from api_keys');
  });

  it('tells no password to the log', () => {
    expect(server.log.match(/alter user \w+ password 'SCRAM-SHA-256\$/gi)).toHaveLength(4);
    for (const password of [...Object.values(PASSWORDS), READER_PASSWORD]) {
      expect(server.log).not.toContain(password);
    }
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

  it('rolls back, and upgrades again', async () => {
    const last = MIGRATION_NAMES.at(-1)!;
    const [reverted] = await follow('Roll back', server);
    expect(reverted).toContain(`Reverted ${last}.`);
    // One of the two ways to apply migrations; the other one is a step of the installation.
    const steps = blocksOf('Upgrade', 'sh');
    expect(steps.filter((step) => INSTALLATION.includes(step))).toHaveLength(3);
    const outputs = await follow(
      steps.filter((step) => !step.includes('migration:run')),
      server,
    );
    expect(outputs[0]).toContain(`[ ] ${last}`);
    expect(outputs.at(-1)).toMatch(/^ok {4}migrations: all applied/m);
    expect(outputs.at(-1)).not.toMatch(/^FAIL/m);
  });

  it('backs up, and restores on a new server', async () => {
    const before = await serve(server);
    const pet = { name: 'Rex', categoryId: 1 };
    await before.api.post('/v1/pets').send(pet).expect(201);
    await before.stop();
    // The migrator could not restore it.
    await asSuperuser('create extension pg_stat_statements');
    expect(await follow('Back up', server)).toHaveLength(1);

    const restored = await follow('Restore', fresh);
    expect(restored).toHaveLength(5);
    expect(restored.at(-1)).not.toMatch(/^FAIL/m);
    const after = await serve(fresh);
    const send = (method: 'get' | 'post') =>
      after.anonymous[method]('/v1/pets').set('Authorization', `Bearer ${before.key}`);
    await send('post').send(pet).expect(201);
    expect((await send('get').expect(200)).body).toHaveLength(2);
    await after.stop();
  });

  it('upgrades to another major version by logical replication', async () => {
    const upgraded = await Postgres.start();
    await follow(INSTALLATION.slice(0, 1), upgraded);
    const newUrl = urlOf('animals_migrator', PASSWORDS.MIGRATOR_PASSWORD, upgraded);
    const [copySchema, copySequences] = blocksOf('Major upgrade of PostgreSQL', 'sh').map(
      (block) => `export NEW_MIGRATOR_URL='${newUrl}'\n${block}`,
    ) as [string, string];
    await run(server, copySchema);
    await follow(INSTALLATION.slice(2, 3), upgraded);
    const [publish, subscribe] = blocksOf('Major upgrade of PostgreSQL', 'sql')[0]!.split('\n');
    const old = `host=127.0.0.1 port=${server.port}`;
    const onNew = urlOf('postgres', upgraded.password, upgraded);
    await asSuperuser(publish!);
    await query(onNew, subscribe!.replace('host=OLD', old).replace('…', server.password));
    await until('the tables are copied', async () => {
      const rows = await query(onNew, 'select srsubstate as state from pg_subscription_rel');
      return rows.length === 5 && rows.every(({ state }) => state === 'r');
    });
    const insert = `insert into pets (name, category_id) values ('Max', 1) returning id`;
    const [[id]] = (await asSuperuser(insert)) as [[string]];
    await until('the changes are there too', async () => {
      const lag = `select pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) from pg_stat_replication`;
      return String(await asSuperuser(lag)) === '0';
    });
    const [before] = await follow([`${INSTALLATION[3]!.trim()} || true`], upgraded);
    expect(before).toMatch(/^FAIL {2}sequences: pets_id_seq is behind .*: select setval/m);
    expect(await run(server, copySequences)).toMatch(/^(\d+\n){4}$/);
    await query(onNew, 'drop subscription upgrade');
    const [after] = await follow(INSTALLATION.slice(3), upgraded);
    expect(after).not.toMatch(/^FAIL/m);
    const service = await serve(upgraded);
    const { body } = await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
    expect(BigInt(body.id)).toBe(BigInt(id) + 1n);
    await service.stop();
    await upgraded.stop();
    await asSuperuser(`drop publication upgrade; delete from pets where id = ${id}`);
  });

  it('restores on the same server', async () => {
    await asSuperuser(`insert into pets (name, category_id) values ('After the backup', 1)`);
    const restored = await follow('Restore on the same server', server);
    expect(restored).toHaveLength(4);
    expect(restored.at(-1)).not.toMatch(/^FAIL/m);
    expect(await asSuperuser('select name from pets')).toEqual([['Rex']]);
    await asSuperuser('drop extension pg_stat_statements');
  });

  it('changes the password of the service without a failed connection', async () => {
    const [create] = blocksOf('Change the password of the service', 'sql');
    await asSuperuser(`${create}; alter role animals_b password 'other'`);
    const url = urlOf('animals_b', 'other', server);
    const stdout = expect.not.stringMatching(/^FAIL/m);
    expect(await runHere('check', { DATABASE_URL: url })).toMatchObject({ code: 0, stdout });
    await asSuperuser('drop role animals_b');
  });

  it('deletes a pet with its orders', async () => {
    const [script] = blocksOf('Delete a pet', 'sql');
    const { MIGRATOR_PASSWORD } = PASSWORDS;
    await asSuperuser(`insert into pets (id, name, category_id) values (1000, 'Old', 1)`);
    await asSuperuser('insert into orders (pet_id) values (1000)');
    await queryAs('animals_migrator', MIGRATOR_PASSWORD, script!.replaceAll('= 1;', '= 1000;'));
    expect(await asSuperuser('select name from pets')).toEqual([['Rex']]);
    expect(await asSuperuser('select id from orders')).toEqual([]);
  });

  it('gives each role its rights and no more', async () => {
    const all = await asSuperuser(
      `select pg_get_userbyid(grantee) || ': ' || name || ' ' || lower(privilege_type)
         from (select oid, relname::text as name, relowner, relacl as acl from pg_class
               union all
               select pg_class.oid, relname || '.' || attname, relowner, attacl
                 from pg_attribute join pg_class on pg_class.oid = attrelid) as relations
         join pg_class using (oid), lateral aclexplode(acl)
        where relnamespace = 'public'::regnamespace and grantee <> relations.relowner`,
    );
    const service = [...NEEDED_RIGHTS, ...OTHER_RIGHTS].map((right) =>
      right.replace(/(\w+) on (\w+)/, 'animals: $2 $1'),
    );
    const readable = ['created_at', 'expires_at', 'id', 'last_used_at', 'name', 'revoked_at'];
    const expected = [
      ...service.map((it) => it.replace('api_keys update', 'api_keys.last_used_at update')),
      'animals_keys: migrations select',
      ...['select', 'insert'].map((right) => `animals_keys: api_keys ${right}`),
      'animals_keys: api_keys.revoked_at update',
      ...[...readable.map((column) => `api_keys.${column}`), 'migrations', 'orders', 'pets'].map(
        (it) => `animals_reader: ${it} select`,
      ),
    ];
    expect(all.flat().toSorted()).toEqual(expected.toSorted());
    const owners = await asSuperuser(
      `select distinct pg_get_userbyid(relowner) from pg_class where relnamespace = 'public'::regnamespace`,
    );
    expect(owners).toEqual([['animals_owner']]);

    const { SERVICE_PASSWORD, KEYS_PASSWORD } = PASSWORDS;
    const denied = { code: '42501' };
    await expect(queryAs('animals_owner', 'x', 'select 1')).rejects.toMatchObject({
      code: '28P01',
    });
    const large = ['lo_create(0)', 'lo_creat(-1)', `lo_from_bytea(0, '')`, `lo_put(1, 0, '')`];
    const writes = large.map((call) => `begin read write; select ${call}`);
    for (const sql of ['create table t ()', 'create temporary table t ()', ...writes]) {
      await expect(queryAs('animals', SERVICE_PASSWORD, sql)).rejects.toMatchObject(denied);
      await expect(queryAs('animals_keys', KEYS_PASSWORD, sql)).rejects.toMatchObject(denied);
    }
    const read = (sql: string) => queryAs('animals_reader', READER_PASSWORD, sql);
    await expect(read(writes[0]!)).rejects.toMatchObject(denied);
    expect(await read('select name from pets')).toEqual([['Rex']]);
    expect(await read('select name from api_keys')).toEqual([['test']]);
    await expect(read('select hash from api_keys')).rejects.toMatchObject(denied);
    const served = await serve(server);
    const seen = await queryAs(
      'animals_migrator',
      PASSWORDS.MIGRATOR_PASSWORD,
      `select distinct query_start is not null from pg_stat_activity where usename = 'animals'`,
    );
    expect(seen).toEqual([[true]]);
    await served.stop();
    await expect(read('delete from pets')).rejects.toMatchObject({ code: '25006' });
    await asSuperuser('create role stranger login password $$x$$');
    await expect(queryAs('stranger', 'x', 'select 1')).rejects.toMatchObject(denied);
  });

  it('creates the roles and the database again without a change, also after it failed half-way', async () => {
    const settings = `select rolname, rolcanlogin, rolconnlimit, rolpassword, setconfig, datname, datacl, nspacl,
        datdba::regrole, roleid::regrole
      from pg_authid left join pg_auth_members on member = pg_authid.oid
      left join pg_db_role_setting on setrole = pg_authid.oid
      cross join pg_database cross join pg_namespace
      where datname = 'animals' and nspname = 'public' and rolname like 'animals%' order by 1, setdatabase, roleid`;
    await asSuperuser(`alter role animals nologin`);
    const before = await asSuperuser(settings);
    expect(before.map((row) => (row as unknown[]).slice(0, 3))).toEqual([
      ['animals', false, -1],
      ['animals_keys', true, 5],
      ['animals_migrator', true, -1],
      ['animals_owner', false, -1],
      ['animals_reader', true, 10],
    ]);
    await run(server, CREATE_ROLES);
    expect(await asSuperuser(settings)).toEqual(before);
    await asSuperuser('alter role animals login');

    // On a server that has a database and a role of these names.
    const other = await Postgres.start([], binaries!);
    await query(other.url, 'create database animals', 'create role animals_reader login');
    const failed = await run(other, `${CREATE_ROLES} 2>&1 || echo "left with $?"`);
    expect(failed).toMatch(
      /ERROR: +the database animals belongs to another role\nHINT: .+\nleft with 3\n$/s,
    );
    const [, remedy] = /: (alter database .+);$/m.exec(failed)!;
    await query(other.url, remedy!);
    await run(other, CREATE_ROLES);
    await other.stop();
  });

  it('has queries that run', async () => {
    const queries = read('docs/monitoring.sql').split(/;\n\n/);
    expect(queries).toHaveLength(9);
    const url = urlOf('postgres', server.password, server);
    await query(url, 'create extension pg_stat_statements', ...queries);
  });

  it('has in docs/orders.md the rights and the statements of a store', async () => {
    const blocks = [...read('docs/orders.md').matchAll(/```sql\n(.*?)```/gs)].map(
      ([, sql]) => sql!,
    );
    const [inserts, update, role] = blocks as [string, string, string];
    await asSuperuser(`${role} alter role store password 'x'; truncate orders restart identity`);
    await queryAs('store', 'x', inserts + update);
    const statuses = await queryAs('store', 'x', 'select status from orders order by id');
    expect(statuses).toEqual([['approved'], ['delivered']]);
    for (const sql of ['select from api_keys', 'delete from orders', 'delete from pets']) {
      await expect(queryAs('store', 'x', sql)).rejects.toMatchObject({ code: '42501' });
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
