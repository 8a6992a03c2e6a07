import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { startService, type TestService } from '../support/service.js';
import { read } from '../support/documents.js';

/** The SQL of docs/orders.md, a script a block. Roles belong to the whole server, so each run has one of its own. */
const ROLE = `store_${randomBytes(6).toString('hex')}`;
const [INSERTS, UPDATE, ROLE_AND_GRANTS] = [
  ...read('docs/orders.md').matchAll(/```sql\n(.*?)```/gs),
].map(([, sql]) => sql!.replace(/(?<=role |to )store\b/g, ROLE)) as [string, string, string];

describe('the role that docs/orders.md suggests', () => {
  let service: TestService;
  let store: Client;
  beforeAll(async () => {
    service = await startService();
    await service.query(`insert into pets (name, category_id) values ('Rex', 1)`);
    const url = new URL(service.databaseUrl);
    await service.query(
      ROLE_AND_GRANTS.replace('database animals', `database ${url.pathname.slice(1)}`),
    );
    url.username = ROLE;
    url.password = randomBytes(16).toString('hex');
    await service.query(`alter role ${ROLE} password '${url.password}'`);
    store = new Client({ connectionString: url.href });
    await store.connect();
  });
  afterAll(async () => {
    await store.end();
    await service.query(`drop owned by ${ROLE}; drop role ${ROLE}`);
    await service.stop();
  });

  it('looks for animals and writes orders as the page shows, and the service lists them', async () => {
    expect((await store.query('select id from pets')).rows).toEqual([{ id: '1' }]);
    await store.query(INSERTS);
    await store.query(UPDATE);
    const { body } = await service.api.get('/v1/store/orders').expect(200);
    expect(body).toEqual([
      { id: 1, petId: 1, status: 'approved', placedAt: expect.any(String) },
      { id: 2, petId: 1, status: 'delivered', placedAt: '2026-11-21T09:30:00.000000Z' },
    ]);
  });

  it.each([
    'select * from api_keys',
    'select * from idempotency_keys',
    'delete from orders',
    'truncate orders',
    `insert into pets (name, category_id) values ('a', 1)`,
    `update pets set status = 'sold'`,
    'delete from pets',
  ])('may not: %s', async (sql) => {
    await expect(store.query(sql)).rejects.toThrow('permission denied');
  });
});
