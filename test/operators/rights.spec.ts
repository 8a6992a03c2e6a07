import { freePort } from '../../scripts/free-port.mjs';
import { administer } from '../../src/database/database.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';
import { createGrantedRole, dropGrantedRole, grantsTo, roleOf } from '../support/granted-role.js';
import { revertOrders } from '../support/revert-to-orders.js';
import { Project } from '../support/project.js';
import { until } from '../support/until.js';

describe('a role with the rights of docs/grants.sql', () => {
  let owner: string;
  let role: string;
  let DATABASE_URL: string;
  let project: Project;
  beforeAll(async () => {
    owner = await createMigratedDatabase();
    role = roleOf(owner);
    DATABASE_URL = await createGrantedRole(owner);
    project = await Project.create();
  });
  afterAll(async () => {
    await project.remove();
    await dropGrantedRole(owner);
    await dropDatabase(owner);
  });

  const asOwner = (sql: string) => administer(owner, (dataSource) => dataSource.query(sql));

  /** Another role than the service's creates keys. @returns a new one. */
  async function createKey(): Promise<string> {
    const { stdout } = await project.run('keys', ['create', '--name', 'x'], {
      DATABASE_URL: owner,
    });
    return stdout.trim();
  }

  // test/api/operations has what it serves.
  it('notes the use of keys, and cannot create, rotate or revoke one', async () => {
    const headers = { Authorization: `Bearer ${await createKey()}` };
    const denied = { code: 1, stdout: '', stderr: expect.stringContaining('permission denied') };
    for (const args of ['create --name y', 'rotate 1 --overlap 1h', 'revoke 1']) {
      expect(await project.run('keys', args.split(' '), { DATABASE_URL })).toEqual(denied);
    }
    const { base, program } = await project.serve({ DATABASE_URL });
    expect((await fetch(`${base}/pets`, { headers })).status).toBe(200);
    // Ends with a round that notes which keys were used, and would warn where it may not.
    const { stdout: log } = await program.end('SIGINT');
    expect(log).not.toContain('"level":"warn"');
  });

  const change = (verb: 'grant' | 'revoke', relation: string, privilege: string) =>
    asOwner(
      `${verb} ${privilege} on ${privilege === 'usage' ? 'sequence ' : ''}${relation} ${verb === 'grant' ? 'to' : 'from'} ${role}`,
    );
  const each = (rights: typeof NEEDED_RIGHTS) =>
    rights.flatMap(([relation, ...privileges]) =>
      privileges.map((privilege) => [relation, privilege] as const),
    );
  const ready = async (base: string) => {
    const response = await fetch(new URL('/health/ready', base));
    return [response.status, ((await response.json()) as { message?: string }).message];
  };
  const check = async () => {
    const { code, stdout } = await project.run('check', [], { DATABASE_URL });
    return [code, /^.+ rights: .+$/m.exec(stdout)?.[0]];
  };

  it('passes the check; without one that listPets, createPet or getPet need, it is not ready', async () => {
    expect(await check()).toEqual([0, 'ok    rights: all that the service needs']);
    const { base } = await project.serve({ DATABASE_URL });
    for (const [relation, privilege] of each(NEEDED_RIGHTS)) {
      await change('revoke', relation, privilege);
      const message = `The database role lacks: ${privilege} on ${relation}.`;
      expect(await ready(base)).toEqual([503, message]);
      await change('grant', relation, privilege);
    }
    expect(await ready(base)).toEqual([200, undefined]);
    await asOwner(`revoke select on pets from ${role}`);
    expect(await check()).toEqual([1, 'FAIL  rights: The database role lacks: select on pets.']);
    await asOwner(grantsTo(role));
  });

  it('is ready and serves pets without its other rights, and says so once in the log, and in the check', async () => {
    const key = await createKey();
    const METRICS_PORT = String(await freePort());
    const { base, program } = await project.serve({ DATABASE_URL, METRICS_PORT });
    for (const [relation, privilege] of each(OTHER_RIGHTS)) {
      await change('revoke', relation, privilege);
    }
    const message = `The database role lacks: ${each(OTHER_RIGHTS)
      .map(([relation, privilege]) => `${privilege} on ${relation}`)
      .join(', ')}.`;
    const headers = {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': 'without',
    };
    const body = '{"name":"Rex","categoryId":1}';
    expect(await ready(base)).toEqual([200, undefined]);
    const created = await fetch(`${base}/pets`, { method: 'POST', headers, body });
    const { id } = (await created.json()) as { id: number };
    expect([
      created.status,
      (await fetch(`${base}/pets`, { headers })).status,
      (await fetch(`${base}/pets/${id}`, { headers })).status,
      ...(await ready(base)),
    ]).toEqual([201, 200, 200, 200, undefined]);
    const metrics = await fetch(`http://127.0.0.1:${METRICS_PORT}/metrics`);
    expect(await metrics.text()).toContain('\nanimal_store_database_warnings 1\n');
    expect(await check()).toEqual([0, `warn  rights: ${message}`]);
    await asOwner(grantsTo(role));
    expect(await ready(base)).toEqual([200, undefined]);
    const { stdout: log } = await program.end('SIGINT');
    const warnings = log.split('\n').filter((line) => line.includes('operation on pets'));
    expect(warnings).toEqual([expect.stringContaining(`"reason":"${message}"`)]);
    expect(log).toContain('The database has everything that the service uses');
  });

  it('is not ready, and says why, while its search_path has another schema', async () => {
    const { base } = await project.serve({ DATABASE_URL });
    const path = (change: string) =>
      asOwner(`alter role ${role} ${change};
        select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`);
    await asOwner(`create schema other; grant usage on schema other to ${role}`);
    await path('set search_path = other');
    await until('it has new sessions', async () => {
      const [status, message] = await ready(base);
      return status === 503 && String(message).startsWith('The tables are in the schema public, ');
    });
    await path('reset search_path');
    await until('it is ready again', async () => (await ready(base))[0] === 200);
  });

  it('is ready while a migration is reverted that no pet needs, starts, and warns', async () => {
    const { base, program } = await project.serve({ DATABASE_URL });
    await revertOrders(owner);
    expect(await ready(base)).toEqual([200, undefined]);
    const started = await project.serve({ DATABASE_URL });
    expect(await ready(started.base)).toEqual([200, undefined]);
    for (const { stdout } of await Promise.all(
      [program, started.program].map((each) => each.end('SIGINT')),
    )) {
      expect(stdout).toMatch(
        /"level":"warn".*Migrations are pending that no pet needs: CreateOrders/,
      );
    }
    const { code, stdout } = await project.run('check', [], { DATABASE_URL });
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^warn {2}migrations: .*CreateOrders/m),
    ]);
    await runMigrations(owner);
    await asOwner(grantsTo(role));
  });
});
