import { runMigrations } from '../../src/schema/migrations.js';
import { NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { createGrantedRole, dropGrantedRole, grantsTo, roleOf } from '../support/granted-role.js';
import { Project } from '../support/project.js';
import { revertOrders } from '../support/revert-to-orders.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';
import { until } from '../support/until.js';

describe('a role with the rights of docs/grants.sql', () => {
  const project = Project.ofTests();
  let owner: string;
  let role: string;
  let DATABASE_URL: string;
  let service: TestService;
  beforeAll(async () => {
    owner = await createMigratedDatabase();
    role = roleOf(owner);
    DATABASE_URL = await createGrantedRole(owner);
  });
  afterAll(async () => {
    await dropGrantedRole(owner);
    await dropDatabase(owner);
  });
  beforeEach(async () => {
    service = await startService({ METRICS_PORT: '0' }, DATABASE_URL, { owner });
  });
  afterEach(() => service.stop());

  const asOwner = (sql: string) => query(owner, sql);
  const change = (what: 'grant' | 'revoke', right: string) =>
    asOwner(
      `${what} ${right.replace('usage on', '$& sequence')} ${what === 'grant' ? 'to' : 'from'} ${role}`,
    );
  const ready = async () => {
    const { status, body } = await service.anonymous.get('/health/ready');
    return [status, body.message];
  };
  const check = async (about = 'rights') => {
    const { code, stdout } = await runHere('check', { DATABASE_URL });
    return [code, new RegExp(`^.+ ${about}: .+$`, 'm').exec(stdout)?.[0]];
  };

  it('passes the check; without one that listPets, createPet or getPet need, it is not ready', async () => {
    expect(await check()).toEqual([0, 'ok    rights: all that the service needs']);
    for (const right of NEEDED_RIGHTS) {
      await change('revoke', right);
      const message = `The database role lacks: ${right}.`;
      expect(await ready()).toEqual([503, message]);
      expect(await check()).toEqual([1, `FAIL  rights: ${message}`]);
      await change('grant', right);
    }
    await asOwner(grantsTo(role));
    expect(await ready()).toEqual([200, undefined]);
  });

  it('is ready and serves pets without its other rights, and says so once in the log, and in the check', async () => {
    for (const right of OTHER_RIGHTS) {
      await change('revoke', right);
    }
    const message = `The database role lacks: ${OTHER_RIGHTS.join(', ')}.`;
    expect(await ready()).toEqual([200, undefined]);
    const { body: pet } = await service.api
      .post('/v1/pets')
      .set('Idempotency-Key', 'without')
      .send({ name: 'Rex', categoryId: 1 })
      .expect(201);
    await service.api.get('/v1/pets').expect(200);
    await service.api.get(`/v1/pets/${pet.id}`).expect(200);
    expect(await ready()).toEqual([200, undefined]);
    const metrics = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
    expect(await metrics.text()).toContain('\nanimal_store_database_warnings 1\n');
    expect(await check()).toEqual([0, `warn  rights: ${message}`]);
    await asOwner(grantsTo(role));
    expect(await ready()).toEqual([200, undefined]);
    const warnings = service.log.filter((line) => line.includes('operation on pets'));
    expect(warnings).toEqual([expect.stringContaining(`"reason":"${message}"`)]);
    expect(service.log.join('')).toContain('The database has everything that the service uses');
  });

  it('is not ready, and says why, while its search_path has another schema', async () => {
    const path = (how: string) =>
      asOwner(`alter role ${role} ${how};
        select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`);
    await asOwner(`create schema other; grant usage on schema other to ${role}`);
    await path('set search_path = other');
    await until('it has new sessions', async () => {
      const [status, message] = await ready();
      return status === 503 && String(message).startsWith('The tables are in the schema public, ');
    });
    await path('reset search_path');
    await until('it is ready again', async () => (await ready())[0] === 200);
  });

  it('is ready while a migration is reverted that no pet needs, starts, and warns', async () => {
    await revertOrders(owner);
    expect(await ready()).toEqual([200, undefined]);
    const warning = /"level":"warn".*Migrations are pending that no pet needs: CreateOrders/;
    expect(service.log.join('')).toMatch(warning);
    const { base, program } = await project.serve({ DATABASE_URL });
    expect((await fetch(new URL('/health/ready', base))).status).toBe(200);
    expect((await program.end('SIGINT')).stdout).toMatch(warning);
    const checked = [0, expect.stringMatching(/^warn {2}migrations: .*CreateOrders/)];
    expect(await check('migrations')).toEqual(checked);
    await runMigrations(owner);
    await asOwner(grantsTo(role));
  });
});
