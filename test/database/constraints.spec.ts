import type { DataSource } from 'typeorm';
import { administrativeDataSource } from '../../src/database/data-source.js';
import { runMigrations } from '../../src/database/migrations.js';
import { createDatabase, dropDatabase } from '../service.js';

describe('the database itself', () => {
  let url: string;
  let dataSource: DataSource;
  beforeAll(async () => {
    url = await createDatabase();
    dataSource = await administrativeDataSource(url).initialize();
    await runMigrations(dataSource);
  });
  afterAll(async () => {
    await dataSource.destroy();
    await dropDatabase(url);
  });

  const addPet = (pet: { name?: unknown; categoryId?: unknown; status?: unknown }) =>
    dataSource.query(`insert into pets (name, category_id, status) values ($1, $2, $3)`, [
      'name' in pet ? pet.name : 'Rex',
      'categoryId' in pet ? pet.categoryId : 1,
      'status' in pet ? pet.status : 'sold',
    ]);

  const addKey = (hash: Buffer | null) =>
    dataSource.query(`insert into api_keys (name, hash) values ('x', $1)`, [hash]);

  it('takes a pet at the limits', async () => {
    await addPet({ name: '🐈'.repeat(255), categoryId: '9223372036854775807' });
    await addPet({ name: ' ', categoryId: '-9223372036854775808' });
  });

  it.each([
    ['a status that does not exist', { status: 'lost' }, 'pets_status_check'],
    ['a status in other letters', { status: 'Sold' }, 'pets_status_check'],
    ['an empty status', { status: '' }, 'pets_status_check'],
    ['no status', { status: null }, 'null value'],
    ['an empty name', { name: '' }, 'pets_name_check'],
    ['no name', { name: null }, 'null value'],
    ['a name that is too long', { name: 'x'.repeat(256) }, 'too long'],
    ['no category', { categoryId: null }, 'null value'],
    ['a category out of range', { categoryId: '9223372036854775808' }, 'out of range'],
  ])('refuses %s', async (_, pet, reason) => {
    await expect(addPet(pet)).rejects.toThrow(reason);
  });

  it('gives a pet without status the status available', async () => {
    const [{ status }] = await dataSource.query(
      `insert into pets (name, category_id) values ('Rex', 1) returning status`,
    );
    expect(status).toBe('available');
  });

  it('refuses a hash twice, of another length, or none', async () => {
    await addKey(Buffer.alloc(32));
    await expect(addKey(Buffer.alloc(32))).rejects.toThrow('api_keys_hash_key');
    await expect(addKey(Buffer.alloc(31))).rejects.toThrow('api_keys_hash_check');
    await expect(addKey(null)).rejects.toThrow('null value');
  });
});
