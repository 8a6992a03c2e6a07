import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { administer } from '../../src/database/database.js';
import { requiredSettings } from '../../src/database/data-source.js';
import { NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { addPet, petNames, statusWith } from '../support/pets.js';
import { Project } from '../support/project.js';

const binaries = await systemBinaries();
const read = (file: string) => readFile(join(PROJECT_ROOT, file), 'utf8');
const [guide, deployment] = await Promise.all([read('docs/dba.md'), read('docs/deploy.md')]);

/** References to steps of docs/deploy.md, with their numbers: create roles; grant the rights and check. */
const REFERENCES: [reference: string, first: number, last: number][] = [
  ['[step 4](deploy.md#database)', 4, 4],
  ['[steps 6 and 7](deploy.md#database)', 6, 7],
];

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
    const [, first, last] = REFERENCES.find(([reference]) => step.includes(reference)) ?? [];
    return first === undefined ? step : stepsOf(deployment, 'Database').slice(first - 1, last);
  });
  const blocks = steps.join('').matchAll(/^( {3,})```(\w+)\n([^]*?)^\1```$/gm);
  return [...blocks]
    .filter(([, , name]) => name === language)
    .map(([, indent, , block]) => block!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
}

const [EXPORTS, ...INSTALLATION] = blocksOf('Database', 'sh', deployment) as [string, ...string[]];
/** Without the passwords. */
const [CREATE_ROLES] = INSTALLATION[0]!.split('\n') as [string];

(binaries ? describe : describe.skip)('docs/dba.md and docs/deploy.md, as they are written', () => {
  const PASSWORDS = {
    MIGRATOR_PASSWORD: 'migratorpassword',
    SERVICE_PASSWORD: 'servicepassword',
    KEYS_PASSWORD: 'keyspassword',
  };
  const READER_PASSWORD = 'readerpassword';
  let project: Project;
  let server: Postgres;
  let fresh: Postgres;
  beforeAll(async () => {
    project = await Project.create();
    for (const file of ['docs/roles.sql', 'docs/grants.sql']) {
      await cp(join(PROJECT_ROOT, file), join(project.folder, file));
    }
    [server, fresh] = await Promise.all([
      Postgres.start(
        ['shared_preload_libraries=pg_stat_statements', 'log_statement=all'],
        binaries!,
      ),
      Postgres.start([], binaries!),
    ]);
  });
  afterAll(async () => {
    await project.remove();
    await Promise.all([server, fresh].map((each) => each.stop()));
  });

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
    const variables = { PGHOST: '127.0.0.1', PGPORT: String(on.port), PGPASSFILE, ...PASSWORDS };
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
  const asService = (on: Postgres) => ({
    DATABASE_URL: urlOf('animals', PASSWORDS.SERVICE_PASSWORD, on),
  });
  const asKeys = (on: Postgres) => urlOf('animals_keys', PASSWORDS.KEYS_PASSWORD, on);

  async function queryAs(role: string, password: string, sql: string): Promise<unknown[]> {
    const client = new Client({ connectionString: urlOf(role, password, server) });
    await client.connect();
    try {
      return (await client.query({ text: sql, rowMode: 'array' })).rows;
    } finally {
      await client.end();
    }
  }
  const asSuperuser = (sql: string) => queryAs('postgres', server.password, sql);

  it('installs', async () => {
    const [, migrated, , check] = await follow(INSTALLATION, server);
    expect(INSTALLATION).toHaveLength(4);
    expect(migrated).toMatch(/Applied .+\.\n$/);
    expect(check).toMatch(/^ok {4}rights: /m);
    expect(check).not.toMatch(/^FAIL/m);
    const served = await project.serve(asService(server));
    expect((await fetch(new URL('/health/ready', served.base))).status).toBe(200);
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
    const [reverted, list] = await follow('Roll back', server);
    expect(reverted).toContain(`Reverted ${last}.`);
    expect(list).toContain(`[ ] ${last}`);
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
    const DATABASE_URL = asKeys(server);
    const created = await project.run('keys', ['create', '--name', 'x'], { DATABASE_URL });
    const key = created.stdout.trim();
    const before = await project.serve(asService(server));
    await addPet(before.base, key, 'Rex');
    expect(await follow('Back up', server)).toHaveLength(1);

    const restored = await follow('Restore', fresh);
    expect(restored).toHaveLength(4);
    expect(restored.at(-1)).not.toMatch(/^FAIL/m);
    const after = await project.serve(asService(fresh));
    expect((await fetch(new URL('/health/ready', after.base))).status).toBe(200);
    expect(await statusWith(after.base, key)).toBe(200);
    await addPet(after.base, key, 'Bello');
    expect(await petNames(after.base, key)).toEqual(['Rex', 'Bello']);
  });

  it('restores on the same server', async () => {
    await asSuperuser(`insert into pets (name, category_id) values ('After the backup', 1)`);
    const restored = await follow('Restore on the same server', server);
    expect(restored).toHaveLength(3);
    expect(restored.at(-1)).not.toMatch(/^FAIL/m);
    expect(await asSuperuser('select name from pets')).toEqual([['Rex']]);
  });

  it('changes the password of the service without a failed connection', async () => {
    const [create] = blocksOf('Change the password of the service', 'sql');
    await asSuperuser(`${create}; alter role animals_b password 'other'`);
    const url = urlOf('animals_b', 'other', server);
    const { code, stdout } = await project.run('check', [], { DATABASE_URL: url });
    expect({ code, fails: /^FAIL/m.test(stdout) }).toEqual({ code: 0, fails: false });
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
      `select pg_get_userbyid(grantee), name, lower(privilege_type)
         from (select oid, relname::text as name, relowner, relacl as acl from pg_class
               union all
               select pg_class.oid, relname || '.' || attname, relowner, attacl
                 from pg_attribute join pg_class on pg_class.oid = attrelid) as relations
         join pg_class using (oid), lateral aclexplode(acl)
        where relnamespace = 'public'::regnamespace and grantee <> relations.relowner
        order by 1, 2, 3`,
    );
    const of = (role: string) =>
      (all as string[][]).filter(([grantee]) => grantee === role).map((it) => it.slice(1));
    const service = [...NEEDED_RIGHTS, ...OTHER_RIGHTS].flatMap(([relation, ...privileges]) =>
      privileges.map((privilege) => [relation, privilege]),
    );
    const rights = service.map((it) =>
      it.join(' ').replace('api_keys update', 'api_keys.last_used_at update'),
    );
    expect(
      of('animals')
        .map((it) => it.join(' '))
        .toSorted(),
    ).toEqual(rights.toSorted());
    expect(of('animals_keys').map((it) => it.join(' '))).toEqual([
      'api_keys insert',
      'api_keys select',
      'api_keys.expires_at update',
      'api_keys.revoked_at update',
    ]);
    expect(of('animals_reader').map((it) => it.join(' '))).toEqual([
      'api_keys.created_at select',
      'api_keys.expires_at select',
      'api_keys.id select',
      'api_keys.last_used_at select',
      'api_keys.name select',
      'api_keys.revoked_at select',
      'migrations select',
      'orders select',
      'pets select',
    ]);
    const roles = ['animals', 'animals_keys', 'animals_reader'];
    expect(all).toHaveLength(roles.flatMap(of).length);
    const owners = await asSuperuser(
      `select distinct pg_get_userbyid(relowner) from pg_class where relnamespace = 'public'::regnamespace`,
    );
    expect(owners).toEqual([['animals_owner']]);

    const { SERVICE_PASSWORD, KEYS_PASSWORD } = PASSWORDS;
    const denied = { code: '42501' };
    await expect(queryAs('animals_owner', 'x', 'select 1')).rejects.toMatchObject({
      code: '28P01',
    });
    for (const sql of ['create table t ()', 'create temporary table t ()', 'delete from pets']) {
      await expect(queryAs('animals', SERVICE_PASSWORD, sql)).rejects.toMatchObject(denied);
      await expect(queryAs('animals_keys', KEYS_PASSWORD, sql)).rejects.toMatchObject(denied);
    }
    const read = (sql: string) => queryAs('animals_reader', READER_PASSWORD, sql);
    expect(await read('select name from pets')).toEqual([['Rex']]);
    expect(await read('select name from api_keys')).toEqual([['x']]);
    await expect(read('select hash from api_keys')).rejects.toMatchObject(denied);
    const seen = await queryAs(
      'animals_migrator',
      PASSWORDS.MIGRATOR_PASSWORD,
      `select distinct query_start is not null from pg_stat_activity where usename = 'animals'`,
    );
    expect(seen).toEqual([[true]]);
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
    try {
      await administer(other.url, async (dataSource) => {
        await dataSource.query('create database animals');
        await dataSource.query('create role animals_reader login');
        const failed = await run(other, `${CREATE_ROLES} 2>&1 || echo "left with $?"`);
        expect(failed).toMatch(
          /ERROR: +the database animals belongs to another role\nHINT: .+\nleft with 3\n$/s,
        );
        const [, remedy] = /: (alter database .+);$/m.exec(failed)!;
        await dataSource.query(remedy!);
      });
      await follow(INSTALLATION, other);
    } finally {
      await other.stop();
    }
  });

  it('has queries that run', async () => {
    await asSuperuser('create extension pg_stat_statements');
    const queries = (await read('docs/monitoring.sql')).split(/;\n\n/);
    expect(queries).toHaveLength(9);
    for (const query of queries) {
      await asSuperuser(query);
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
