import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { PROJECT_ROOT } from '../../src/config/project-root.js';
import { requiredSettings } from '../../src/database/data-source.js';
import { NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { Postgres, systemBinaries } from '../support/postgres.js';
import { addPet, petNames, statusWith } from '../support/pets.js';
import { Project } from '../support/project.js';

const binaries = await systemBinaries();
const guide = await readFile(join(PROJECT_ROOT, 'docs/dba.md'), 'utf8');

/** The code blocks of a section's numbered steps, in their order. */
function blocksOf(title: string, language: 'sh' | 'sql'): string[] {
  const [, section = ''] = guide.split(`\n## ${title}\n`);
  const blocks = section.split('\n## ')[0]!.matchAll(/^( {3,})```(\w+)\n([^]*?)^\1```$/gm);
  return [...blocks]
    .filter(([, , name]) => name === language)
    .map(([, indent, , block]) => block!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
}

(binaries ? describe : describe.skip)('docs/dba.md, as it is written', () => {
  const PASSWORDS = {
    MIGRATOR_PASSWORD: 'migratorpassword',
    SERVICE_PASSWORD: 'servicepassword',
    READER_PASSWORD: 'readerpassword',
  };
  let project: Project;
  let server: Postgres;
  let fresh: Postgres;
  beforeAll(async () => {
    project = await Project.create();
    for (const file of ['docs/roles.sql', 'docs/grants.sql']) {
      await cp(join(PROJECT_ROOT, file), join(project.folder, file));
    }
    [server, fresh] = await Promise.all([
      Postgres.start(['shared_preload_libraries=pg_stat_statements'], binaries!),
      Postgres.start([], binaries!),
    ]);
  });
  afterAll(async () => {
    await project.remove();
    await Promise.all([server, fresh].map((each) => each.stop()));
  });

  /** Runs a step's commands on `on`. @returns their standard output. */
  async function run(on: Postgres, commands: string): Promise<string> {
    const { MIGRATOR_PASSWORD, SERVICE_PASSWORD, READER_PASSWORD } = PASSWORDS;
    const passwords = [
      `*:*:*:postgres:${on.password}`,
      `*:*:*:animals_migrator:${MIGRATOR_PASSWORD}`,
      `*:*:*:animals:${SERVICE_PASSWORD}`,
      `*:*:*:animals_reader:${READER_PASSWORD}`,
    ];
    const PGPASSFILE = join(project.folder, '.pgpass');
    await writeFile(PGPASSFILE, passwords.join('\n'), { mode: 0o600 });
    const [exports] = blocksOf('Before you begin', 'sh');
    const variables = { PGHOST: '127.0.0.1', PGPORT: String(on.port), PGPASSFILE, ...PASSWORDS };
    const program = project.start('sh', ['-e', '-c', exports + commands], variables);
    const { code, stdout, stderr } = await program.outcome;
    expect({ commands, code, stderr }).toEqual({ commands, code: 0, stderr: expect.any(String) });
    return stdout;
  }

  /** Runs all steps of a section. @returns the standard output of each. */
  async function follow(title: string, on: Postgres, leaveOut?: string): Promise<string[]> {
    const blocks = blocksOf(title, 'sh').filter((block) => block !== leaveOut);
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
    const [, migrated, , check] = await follow('Install', server);
    expect(migrated).toMatch(/Applied .+\.\n$/);
    expect(check).toMatch(/^ok {4}rights: /m);
    expect(check).not.toMatch(/^FAIL/m);
    const served = await project.serve(asService(server));
    expect((await fetch(new URL('/health/ready', served.base))).status).toBe(200);
  });

  it('rolls back, and upgrades again', async () => {
    const last = MIGRATION_NAMES.at(-1)!;
    const [reverted, list] = await follow('Roll back', server);
    expect(reverted).toContain(`Reverted ${last}.`);
    expect(list).toContain(`[ ] ${last}`);
    // One of the two ways to apply migrations; the other one is a step of the installation.
    const [command] = blocksOf('Upgrade', 'sh').filter((block) => block.includes('migration:run'));
    expect(blocksOf('Install', 'sh')).toContain(command);
    const outputs = await follow('Upgrade', server, command);
    expect(outputs[0]).toContain(`[ ] ${last}`);
    expect(outputs.at(-1)).toMatch(/^ok {4}migrations: all applied/m);
    expect(outputs.at(-1)).not.toMatch(/^FAIL/m);
  });

  it('backs up, and restores on a new server', async () => {
    const created = await project.run('keys', ['create', '--name', 'x'], asService(server));
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
    // Of keys create, which no request does.
    service.push(['api_keys', 'insert']);
    expect(of('animals').toSorted()).toEqual(service.toSorted());
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
    expect(all).toHaveLength(of('animals').length + of('animals_reader').length);
    const owners = await asSuperuser(
      `select distinct pg_get_userbyid(relowner) from pg_class where relnamespace = 'public'::regnamespace`,
    );
    expect(owners).toEqual([['animals_owner']]);

    const { SERVICE_PASSWORD, READER_PASSWORD } = PASSWORDS;
    const denied = { code: '42501' };
    await expect(queryAs('animals_owner', 'x', 'select 1')).rejects.toMatchObject({
      code: '28P01',
    });
    for (const sql of ['create table t ()', 'create temporary table t ()', 'delete from pets']) {
      await expect(queryAs('animals', SERVICE_PASSWORD, sql)).rejects.toMatchObject(denied);
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

  it('has queries that run', async () => {
    await asSuperuser('create extension pg_stat_statements');
    const queries = blocksOf('What to watch', 'sql');
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
