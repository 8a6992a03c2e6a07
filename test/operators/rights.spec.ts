import { administer } from '../../src/database/database.js';
import { revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { RIGHTS } from '../../src/schema/rights.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';
import { createGrantedRole, dropGrantedRole, grantsTo, roleOf } from '../support/granted-role.js';
import { revertToOrders } from '../support/revert-to-orders.js';
import { Project } from '../support/project.js';

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

  it('serves and issues keys', async () => {
    const { stdout } = await project.run('keys', ['create', '--name', 'x'], { DATABASE_URL });
    const headers = {
      Authorization: `Bearer ${stdout.trim()}`,
      'Content-Type': 'application/json',
    };
    const { base, program } = await project.serve({ DATABASE_URL });
    const status = async (path: string, more: RequestInit = {}) =>
      (await fetch(new URL(path, base), { headers, ...more })).status;
    const add = (key: object) => ({
      method: 'POST',
      body: '{"name":"Rex","categoryId":1}',
      headers: { ...headers, ...key },
    });
    expect([
      await status('/health/ready'),
      await status('/v1/pets', add({})),
      await status('/v1/pets', add({ 'Idempotency-Key': 'once' })),
      await status('/v1/pets', add({ 'Idempotency-Key': 'once' })),
      await status('/v1/pets'),
      await status('/v1/pets/1'),
      await status('/v1/store/orders'),
    ]).toEqual([200, 201, 201, 201, 200, 200, 200]);
    // Ends with a round that notes which keys were used, and would warn where it may not.
    const { stdout: log } = await program.end('SIGINT');
    expect(log).not.toContain('"level":"warn"');
  });

  it('passes the check; without one of them, readiness and the check name it', async () => {
    const { base } = await project.serve({ DATABASE_URL });
    const ready = async () => {
      const answer = await fetch(new URL('/health/ready', base));
      return [answer.status, ((await answer.json()) as { message?: string }).message];
    };
    const check = async () => {
      const { code, stdout } = await project.run('check', [], { DATABASE_URL });
      return [code, /^.+ rights: .+$/m.exec(stdout)?.[0]];
    };
    const well = [0, 'ok    rights: all that the service needs'];
    expect(await check()).toEqual(well);
    for (const [relation, ...privileges] of RIGHTS) {
      for (const privilege of privileges) {
        const on = privilege === 'usage' ? `sequence ${relation}` : relation;
        await asOwner(`revoke ${privilege} on ${on} from ${role}`);
        expect(await ready()).toEqual([
          503,
          `The database role lacks: ${privilege} on ${relation}.`,
        ]);
        await asOwner(`grant ${privilege} on ${on} to ${role}`);
      }
    }
    expect(await ready()).toEqual([200, undefined]);

    // The migration makes the table anew, and nobody may read it.
    await revertToOrders(owner);
    await revertMigration(owner);
    await runMigrations(owner);
    expect(await ready()).toEqual([503, 'The database role lacks: select on orders.']);
    expect(await check()).toEqual([1, 'FAIL  rights: missing: select on orders']);
    await asOwner(grantsTo(role));
    expect(await ready()).toEqual([200, undefined]);
    expect(await check()).toEqual(well);
  });
});
