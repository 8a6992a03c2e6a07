import { Client } from 'pg';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';

describe('the database itself', () => {
  let url: string;
  let client: Client;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    client = new Client({ connectionString: url });
    await client.connect();
    await client.query(`insert into pets (id, name, category_id) values (1000, 'ordered', 1)`);
  });
  afterAll(async () => {
    await client.end();
    await dropDatabase(url);
  });
  beforeEach(() => client.query('begin'));
  afterEach(() => client.query('rollback'));

  const pet = (values: string) => `insert into pets (name, category_id, status) values (${values})`;
  const order = (values: string) =>
    `insert into orders (pet_id, status, placed_at) values (${values})`;
  const key = (hash: string) => `insert into api_keys (name, hash) values ('x', ${hash})`;
  const HASH = `decode(repeat('00', 32), 'hex')`;

  it.each([
    ['a status that does not exist', pet(`'Rex', 1, 'lost'`), 'pets_status_check'],
    ['an empty name', pet(`'', 1, 'sold'`), 'pets_name_check'],
    ['a name that is too long', pet(`repeat('x', 256), 1, 'sold'`), 'too long'],
    ['an order of no such animal', order(`-1, 'placed', now()`), 'orders_pet_id_fkey'],
    ['an order of no such status', order(`1000, 'lost', now()`), 'orders_status_check'],
    ['an order before the year 1', order(`1000, 'placed', '0001-12-31 BC'`), 'placed_at_check'],
    ['an order after the year 9999', order(`1000, 'placed', '10000-01-01Z'`), 'placed_at_check'],
    [
      'an order with a chosen id',
      'insert into orders (id, pet_id) values (1, 1000)',
      'non-DEFAULT',
    ],
    ['a hash twice', `${key(HASH)}; ${key(HASH)}`, 'api_keys_hash_key'],
    ['a hash of 31 bytes', key(`decode(repeat('00', 31), 'hex')`), 'api_keys_hash_check'],
  ])('rejects %s', async (_what, sql, reason) => {
    await expect(client.query(sql)).rejects.toThrow(reason);
  });

  it('has defaults: a pet is available, and an order placed now', async () => {
    const { rows: pets } = await client.query(
      `insert into pets (name, category_id) values ('Rex', 1) returning status`,
    );
    const { rows: orders } = await client.query(
      `insert into orders (pet_id) values (1000) returning status, placed_at = now() as is_now`,
    );
    expect([...pets, ...orders]).toEqual([
      { status: 'available' },
      { status: 'placed', is_now: true },
    ]);
  });

  it('keeps an animal that has orders, until they are deleted', async () => {
    await client.query('insert into orders (pet_id) values (1000); savepoint before');
    const deletePet = () => client.query('delete from pets where id = 1000');
    await expect(deletePet()).rejects.toThrow('orders_pet_id_fkey');
    await client.query('rollback to before; delete from orders');
    expect((await deletePet()).rowCount).toBe(1);
  });
});
