import { administerKeys } from '../../src/auth/api-keys.js';
import { readEnvironment } from '../../src/config/environment.js';
import { requireMigrated } from '../../src/schema/migrations.js';
import { LOCK_RIGHT, NEEDED_RIGHTS, OTHER_RIGHTS } from '../../src/schema/schema-state.js';
import { expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { createGrantedRole, dropGrantedRole, grantsTo, roleOf } from '../support/granted-role.js';
import { revertOrders, revertToOrders } from '../support/revert-to-orders.js';
import { createMigratedDatabase, dropDatabase } from '../support/database.js';
import { startService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

let owner: string;
let role: string;
let DATABASE_URL: string;
let service: TestService;
beforeAll(async () => {
  owner = await createMigratedDatabase();
  role = roleOf(owner);
  DATABASE_URL = await createGrantedRole(owner);
  service = await startService({ METRICS_PORT: '0' }, DATABASE_URL, { owner });
  await create().expect(201);
  await asOwner(`insert into orders (pet_id) values (1)`);
});
afterAll(async () => {
  await service.stop();
  await dropGrantedRole(owner);
  await dropDatabase(owner);
});

const asOwner = (...statements: string[]) => query(owner, ...statements);
const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
/** Of readiness. */
const READY = [200, undefined];
const ready = async () => {
  const { status, body } = await service.anonymous.get('/health/ready');
  return [status, body.message];
};
const ALL_APPLIED = expect.stringMatching(/^ok {4}migrations: all applied/);
/** The exit code of `check`, and its line about something. */
const check = async (about = 'rights') => {
  const { code, stdout } = await runHere('check', { DATABASE_URL });
  return [code, new RegExp(`^.+ ${about}: .+$`, 'm').exec(stdout)?.[0]];
};

describe('a role with the rights of docs/grants.sql', () => {
  const change = (what: 'grant' | 'revoke', right: string) =>
    asOwner(
      `${what} ${right.replace('usage on', '$& sequence')} ${what === 'grant' ? 'to' : 'from'} ${role}`,
    );

  it('passes the check; without one that listPets, createPet or getPet need, it may start and is not ready', async () => {
    expect(await check()).toEqual([0, 'ok    rights: all that the service needs']);
    // As docs/roles.sql does.
    await asOwner(`revoke ${LOCK_RIGHT} from public`);
    await change('grant', LOCK_RIGHT);
    for (const right of [...NEEDED_RIGHTS, LOCK_RIGHT]) {
      await change('revoke', right);
      const start = requireMigrated(DATABASE_URL, readEnvironment({ DATABASE_URL }));
      await expect(start).resolves.toBeUndefined();
      const message = `The database role lacks: ${right}.`;
      expect(await ready()).toEqual([503, 'The database role lacks rights.']);
      expect(service.log.join('')).toContain(message);
      expect(await check()).toEqual([1, `FAIL  rights: ${message}`]);
      await change('grant', right);
    }
    expect(await ready()).toEqual(READY);
  });

  it('is ready and serves pets without its other rights, and says so once in the log, in the metrics and in the check', async () => {
    for (const right of OTHER_RIGHTS) {
      await change('revoke', right);
    }
    const message = `The database role lacks: ${OTHER_RIGHTS.join(', ')}.`;
    expect(await ready()).toEqual(READY);
    await create().set('Idempotency-Key', 'without').expect(201);
    await service.api.get('/v1/pets').expect(200);
    await service.api.get('/v1/pets/1').expect(200);
    expect(await ready()).toEqual(READY);
    const metrics = await fetch(`http://127.0.0.1:${service.metricsPort()}/metrics`);
    expect(await metrics.text()).toContain('\nanimal_store_database_warnings 1\n');
    expect(await check()).toEqual([0, `warn  rights: ${message}`]);
    await asOwner(grantsTo(role));
    expect(await ready()).toEqual(READY);
    const warnings = service.log.filter((line) => line.includes('operation on pets'));
    expect(warnings).toEqual([expect.stringContaining(`"reason":"${message}"`)]);
    expect(service.log.join('')).toContain('The database has everything that the service uses');
  });

  // Before the next test, after which CreateOrders is the last one.
  it('is ready while all migrations are reverted that came after those of the tables, which a start may apply', async () => {
    await revertToOrders(owner);
    expect(await ready()).toEqual(READY);
    await create().set('Idempotency-Key', 'reverted').expect(201);
    expect(await check('migrations')).toEqual([0, expect.stringMatching(/^warn/)]);
    // As with the embedded PostgreSQL.
    await requireMigrated(owner, readEnvironment({}));
    expect(await check('migrations')).toEqual([0, ALL_APPLIED]);
    expect(await ready()).toEqual(READY);
  });

  it('is ready while a migration is reverted that no pet needs, may start, and warns; with MIGRATE_ON_START, a start applies it', async () => {
    await revertOrders(owner);
    expect(await ready()).toEqual(READY);
    const warning = /"level":"warn".*Migrations are pending that no pet needs: CreateOrders/;
    expect(service.log.join('')).toMatch(warning);
    const environment = readEnvironment({ DATABASE_URL });
    await expect(requireMigrated(DATABASE_URL, environment)).resolves.toBeUndefined();
    const checked = [0, expect.stringMatching(/^warn {2}migrations: .*CreateOrders/)];
    expect(await check('migrations')).toEqual(checked);
    const migrating = readEnvironment({ DATABASE_URL: owner, MIGRATE_ON_START: 'true' });
    await requireMigrated(owner, migrating);
    await asOwner(grantsTo(role), `insert into orders (pet_id) values (1)`);
    expect(await check('migrations')).toEqual([0, ALL_APPLIED]);
  });
});

it('the check names the role that a setting makes it act as', async () => {
  const other = `${role}_other`;
  await asOwner(
    `create role ${other}; grant ${other} to ${role}; alter role ${role} set role = ${other}`,
  );
  const lacks = `FAIL  rights: The role ${other}, which the setting "role" of ${role} names, lacks: `;
  expect(await check()).toEqual([1, expect.stringContaining(lacks)]);
  await asOwner(`alter role ${role} reset role; drop role ${other}`);
  expect(await check()).toEqual([0, 'ok    rights: all that the service needs']);
});

it('starts, and is not ready, while the tables cannot be compared', async () => {
  const execute = 'execute on function pg_get_constraintdef(oid)';
  await asOwner(`revoke ${execute} from public`);
  const other = await startService({}, DATABASE_URL, { owner });
  await other.anonymous.get('/health/ready').expect(503);
  await asOwner(`grant ${execute} to public`);
  await other.anonymous.get('/health/ready').expect(200);
  await other.stop();
});

it('a schema of its name hides no table from the service', async () => {
  await asOwner(
    `create schema ${role}; create table ${role}.pets (like pets including all)`,
    `grant usage on schema ${role} to ${role}; grant select, insert on ${role}.pets to ${role}`,
    `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`,
  );
  await until('the sessions are new', async () => (await create()).status === 201);
  expect((await service.api.get('/v1/pets')).body.length).toBeGreaterThan(1);
  expect(await ready()).toEqual(READY);
  await asOwner(`drop schema ${role} cascade`);
});

it('is ready again without a restart after its schema was renamed, and the search_path of its role set', async () => {
  await asOwner('alter schema public rename to store');
  expect((await ready())[0]).toBe(503);
  await asOwner(`alter role ${role} set search_path = store`);
  await until('it is ready', async () => (await ready())[0] === 200);
  await create().expect(201);
  await asOwner('alter schema store rename to public', `alter role ${role} reset search_path`);
  await until('it is ready again', async () => (await ready())[0] === 200);
  await service.api.get('/v1/pets').expect(200);
});

describe('with row-level security', () => {
  const lackOf = (table: string) =>
    `The database role lacks: select on ${table} (row-level security could hide rows; run alter role ${role} bypassrls, or alter table ${table} disable row level security).`;
  const requests: Record<string, () => Promise<any[]>> = {
    pets: async () => [
      await service.api.get('/v1/pets'),
      await service.api.get('/v1/pets?status=available'),
      await service.api.get('/v1/pets/1'),
      await create(),
      await create().set('Idempotency-Key', 'k'),
    ],
    api_keys: async () => {
      const { key } = await administerKeys(owner, (keys) => keys.issue('new'));
      return [await service.anonymous.get('/v1/pets').set('Authorization', `Bearer ${key}`)];
    },
    idempotency_keys: async () => [await create().set('Idempotency-Key', 'k')],
  };

  it.each(['pets', 'api_keys', 'idempotency_keys'])(
    'on %s, nothing is hidden: 503, of which readiness tells the kind, and check all',
    async (table) => {
      await asOwner(`alter table ${table} enable row level security`);
      try {
        for (const answer of await requests[table]!()) {
          expectError(answer, 503, 'unavailable', ['database', 'try again']);
          expect(answer.headers['retry-after']).toBe('1');
        }
        expect(await ready()).toEqual([503, 'The database role lacks rights.']);
        expect(await check()).toEqual([1, `FAIL  rights: ${lackOf(table)}`]);
        if (table === 'api_keys') {
          const { code, stdout, stderr } = await runHere('keys list', { DATABASE_URL });
          expect([code, stdout]).toEqual([1, '']);
          expect(stderr).toContain('row-level security policy for table "api_keys"');
        }
        await asOwner(`alter role ${role} bypassrls`);
        expect(await ready()).toEqual(READY);
        for (const answer of await requests[table]!()) {
          expect(answer.status).toBeLessThan(300);
          expect(answer.text).not.toBe('[]');
        }
      } finally {
        await asOwner(
          `alter role ${role} nobypassrls; alter table ${table} disable row level security`,
        );
      }
    },
  );

  it('on orders, they are 503, pets are served, and a warning says why', async () => {
    await asOwner('alter table orders enable row level security');
    expectError(await service.api.get('/v1/store/orders'), 503, 'unavailable', ['database']);
    await service.api.get('/v1/pets').expect(200);
    expect(await ready()).toEqual(READY);
    expect(await check()).toEqual([0, expect.stringMatching(/^warn .* select on orders \(row/)]);
    await asOwner('alter table orders disable row level security');
    await service.api.get('/v1/store/orders').expect(200);
  });
});
