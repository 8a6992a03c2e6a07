import { administerKeys } from '../../src/auth/api-keys.js';
import { expectError } from '../support/answers.js';
import { query } from '../support/ask.js';
import { runHere } from '../support/command.js';
import { describeWith } from '../support/describe-with.js';
import { createGrantedRole, dropGrantedRole, grantsTo, roleOf } from '../support/granted-role.js';
import { PgBouncer } from '../support/pgbouncer.js';
import {
  createMigratedDatabase,
  dropDatabase,
  startService,
  type TestService,
} from '../support/service.js';

let owner: string;
let role: string;
let DATABASE_URL: string;
beforeAll(async () => {
  owner = await createMigratedDatabase();
  role = roleOf(owner);
  DATABASE_URL = await createGrantedRole(owner);
});
afterAll(async () => {
  await dropGrantedRole(owner);
  await dropDatabase(owner);
});

const asOwner = (...statements: string[]) => query(owner, ...statements);
const ready = async ({ anonymous }: TestService) => {
  const { status, body } = await anonymous.get('/health/ready');
  return [status, body.message];
};
const check = async () => {
  const { code, stdout } = await runHere('check', { DATABASE_URL });
  return [code, /^.+ rights: .+$/m.exec(stdout)?.[0]];
};
const lackOf = (table: string) =>
  `The database role lacks: select on ${table} (row-level security could hide rows; run alter role ${role} bypassrls, or alter table ${table} disable row level security).`;

describe('with row-level security', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService({}, DATABASE_URL, { owner });
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    await asOwner(`insert into orders (pet_id) values (1)`);
  });
  afterAll(() => service.stop());

  const create = () => service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
  const requests: Record<string, () => Promise<any>> = {
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
    orders: async () => [await service.api.get('/v1/store/orders')],
  };
  const expectServed = async () => {
    expect(await ready(service)).toEqual([200, undefined]);
    for (const answer of (
      await Promise.all(Object.values(requests).map((send) => send()))
    ).flat()) {
      expect(answer.status).toBeLessThan(300);
      expect(answer.text).not.toBe('[]');
    }
  };

  it.each<[string, string, (table: string) => string]>([
    ['and no policy', 'pets', () => ''],
    ['and a policy that shows all rows', 'pets', (it) => `create policy p on ${it} using (true)`],
    [
      'and a policy that hides some',
      'pets',
      (it) => `create policy p on ${it} using (name <> 'Rex') with check (true)`,
    ],
    [
      'that is forced on the owner, which is the service',
      'pets',
      (it) => `alter table ${it} force row level security; alter table ${it} owner to ${role}`,
    ],
    ['and no policy', 'api_keys', () => ''],
    [
      'and a policy for others',
      'api_keys',
      (it) => `create policy p on ${it} to pg_monitor using (true)`,
    ],
    ['and no policy', 'idempotency_keys', () => ''],
  ])(
    '%s on %s, nothing is hidden: 503, and readiness and check say why',
    async (_how, table, more) => {
      const [{ tableowner }] = await asOwner(
        `select tableowner from pg_tables where tablename = '${table}'`,
      );
      await asOwner(`alter table ${table} enable row level security; ${more(table)}`);
      try {
        for (const answer of await requests[table]!()) {
          expectError(answer, 503, 'unavailable', ['database', 'try again']);
          expect(answer.headers['retry-after']).toBe('1');
        }
        expect(await ready(service)).toEqual([503, lackOf(table)]);
        expect(await check()).toEqual([1, `FAIL  rights: ${lackOf(table)}`]);
        await asOwner(`alter role ${role} bypassrls`);
        await expectServed();
      } finally {
        await asOwner(
          `alter role ${role} nobypassrls`,
          `alter table ${table} disable row level security; alter table ${table} owner to ${tableowner};
       alter table ${table} no force row level security; drop policy if exists p on ${table}`,
          grantsTo(role),
        );
      }
      await expectServed();
    },
  );

  it('on all other tables, pets are served, orders are 503, and a warning says why', async () => {
    await asOwner(
      ...['orders', 'migrations'].map((it) => `alter table ${it} enable row level security`),
    );
    expectError((await requests['orders']!())[0], 503, 'unavailable', ['database']);
    await service.api.get('/v1/pets').expect(200);
    await create().expect(201);
    expect(await ready(service)).toEqual([200, undefined]);
    const [code, line] = await check();
    expect([code, line]).toEqual([
      0,
      expect.stringMatching(/^warn .* select on migrations \(row-level.*select on orders \(row/),
    ]);
    await asOwner(
      ...['orders', 'migrations'].map((it) => `alter table ${it} disable row level security`),
    );
    await expectServed();
  });

  it('on api_keys, the list of keys is not empty, but an error', async () => {
    await asOwner('alter table api_keys enable row level security');
    expect(await runHere('keys list', { DATABASE_URL })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('row-level security policy for table "api_keys"'),
    });
    await asOwner('alter table api_keys disable row level security');
  });
});

describeWith('pgbouncer')('with row-level security behind a pooler', () => {
  it('the service starts without its setting, is not ready, and says why', async () => {
    const name = new URL(owner).pathname.slice(1);
    await asOwner(
      `alter database ${name} set jit = off; alter database ${name} set statement_timeout = 1500;
       alter table pets enable row level security; alter table migrations enable row level security`,
    );
    const pooler = await PgBouncer.before(DATABASE_URL);
    const service = await startService({ DATABASE_POOLER: 'transaction' }, pooler.url, { owner });
    expect(await ready(service)).toEqual([503, lackOf('pets')]);
    await asOwner('alter table pets disable row level security');
    expect(await ready(service)).toEqual([200, undefined]);
    await service.stop();
    await pooler.stop();
  });
});
