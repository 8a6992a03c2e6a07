import type { DataSource } from 'typeorm';
import { administrativeDataSource } from '../../src/database/data-source.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';

describe('the database itself', () => {
  let url: string;
  let dataSource: DataSource;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    dataSource = await administrativeDataSource(url).initialize();
  });
  afterAll(async () => {
    await dataSource.destroy();
    await dropDatabase(url);
  });

  const query = async (sql: string, values?: unknown[]): Promise<any[]> =>
    dataSource.query(sql, values);

  const addPet = (pet: { name?: unknown; categoryId?: unknown; status?: unknown }) =>
    query(`insert into pets (name, category_id, status) values ($1, $2, $3)`, [
      'name' in pet ? pet.name : 'Rex',
      'categoryId' in pet ? pet.categoryId : 1,
      'status' in pet ? pet.status : 'sold',
    ]);

  const addKey = (hash: Buffer | null) =>
    query(`insert into api_keys (name, hash) values ('x', $1)`, [hash]);

  it('takes a pet at the limits', async () => {
    await addPet({ name: '🐈'.repeat(255), categoryId: '9223372036854775807' });
    await addPet({ name: ' ', categoryId: '-9223372036854775808' });
  });

  it.each([
    ['a status that does not exist', { status: 'lost' }, 'pets_status_check'],
    ['no status', { status: null }, 'null value'],
    ['an empty name', { name: '' }, 'pets_name_check'],
    ['no name', { name: null }, 'null value'],
    ['a name that is too long', { name: 'x'.repeat(256) }, 'too long'],
    ['no category', { categoryId: null }, 'null value'],
  ])('refuses %s', async (_, pet, reason) => {
    await expect(addPet(pet)).rejects.toThrow(reason);
  });

  it('gives a pet without status the status available', async () => {
    const [{ status }] = await query(
      `insert into pets (name, category_id) values ('Rex', 1) returning status`,
    );
    expect(status).toBe('available');
  });

  describe('on orders', () => {
    let petId: string;
    beforeAll(async () => {
      [{ id: petId }] = await query(
        `insert into pets (name, category_id) values ('ordered', 1) returning id`,
      );
    });

    const addOrder = (order: { petId?: unknown; status?: unknown; placedAt?: unknown }) =>
      query(`insert into orders (pet_id, status, placed_at) values ($1, $2, $3)`, [
        'petId' in order ? order.petId : petId,
        'status' in order ? order.status : 'placed',
        'placedAt' in order ? order.placedAt : '2026-11-21T00:00:00Z',
      ]);

    it.each(['0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999999Z'])(
      'takes an order placed at %s',
      (placedAt) => addOrder({ placedAt }),
    );

    it.each([
      ['an animal that does not exist', { petId: '-1' }, 'orders_pet_id_fkey'],
      ['no animal', { petId: null }, 'null value'],
      ['a status that does not exist', { status: 'lost' }, 'orders_status_check'],
      ['no status', { status: null }, 'null value'],
      ['no moment', { placedAt: null }, 'null value'],
      ['a moment before the year 1', { placedAt: '0001-12-31 BC' }, 'orders_placed_at_check'],
      [
        'a moment after the year 9999',
        { placedAt: '10000-01-01T00:00:00Z' },
        'orders_placed_at_check',
      ],
      ['infinity', { placedAt: 'infinity' }, 'orders_placed_at_check'],
    ])('refuses %s', async (_, order, reason) => {
      await expect(addOrder(order)).rejects.toThrow(reason);
    });

    it('refuses an id that the writer chose', async () => {
      await expect(
        query(`insert into orders (id, pet_id) values (1, $1)`, [petId]),
      ).rejects.toThrow('cannot insert a non-DEFAULT value into column "id"');
    });

    it('gives an order without status and moment the status placed, and now', async () => {
      const [order] = await query(
        `insert into orders (pet_id) values ($1) returning status, placed_at = now() as is_now`,
        [petId],
      );
      expect(order).toEqual({ status: 'placed', is_now: true });
    });

    it('keeps an animal that has orders, until they are deleted', async () => {
      await addOrder({});
      const deletePet = () => query(`delete from pets where id = $1 returning id`, [petId]);
      await expect(deletePet()).rejects.toThrow('orders_pet_id_fkey');
      await query(`delete from orders where pet_id = $1`, [petId]);
      expect(await deletePet()).toEqual([[{ id: petId }], 1]);
    });
  });

  it('refuses a hash twice, of another length, or none', async () => {
    await addKey(Buffer.alloc(32));
    await expect(addKey(Buffer.alloc(32))).rejects.toThrow('api_keys_hash_key');
    await expect(addKey(Buffer.alloc(31))).rejects.toThrow('api_keys_hash_check');
    await expect(addKey(null)).rejects.toThrow('null value');
  });
});
