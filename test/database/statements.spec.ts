import { type DataSource, type EntityTarget, type ObjectLiteral } from 'typeorm';
import * as verifier from '../../src/auth/api-key-verifier.js';
import { ENTITIES } from '../../src/entities.js';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import { runMigrations } from '../../src/schema/migrations.js';
import * as standbys from '../../src/standbys/standbys.sql.js';
import { run, type Statement } from '../../src/database/statement.js';
import { Order } from '../../src/orders/order.entity.js';
import * as orders from '../../src/orders/orders.sql.js';
import * as idempotentCreation from '../../src/pets/idempotent-creation.sql.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import { Pet } from '../../src/pets/pet.entity.js';
import * as pets from '../../src/pets/pets.sql.js';
import { createDatabase, dropDatabase } from '../support/service.js';

const STATEMENTS = [verifier, orders, idempotentCreation, pets, standbys].flatMap((module) =>
  Object.values(module).filter(
    (value): value is Statement =>
      typeof value === 'object' && value !== null && 'text' in value && 'name' in value,
  ),
);

describe('the statements', () => {
  let url: string;
  let dataSource: DataSource;
  beforeAll(async () => {
    url = await createDatabase();
    await runMigrations(url);
    dataSource = await servingDataSource(url, 1, { entities: ENTITIES }).initialize();
    await dataSource.query(
      `insert into pets (name, category_id, status) values ('Rex "the" cat', -9223372036854775808, 'sold')`,
    );
    await dataSource.query(
      `insert into orders (pet_id, placed_at) values (1, '2026-11-21T09:30Z')`,
    );
  });
  afterAll(async () => {
    await dataSource.destroy();
    await dropDatabase(url);
  });

  it('have a name each that no other has', () => {
    const names = STATEMENTS.map(({ name }) => name);
    expect(names.length).toBeGreaterThan(7);
    expect(new Set(names).size).toBe(names.length);
  });

  it.each(STATEMENTS.map(({ name, text }) => [name, text]))(
    'can be prepared on the migrated schema: %s',
    async (name, text) => {
      await dataSource.query(`prepare "${name}" as ${text}`);
      await dataSource.query(`deallocate "${name}"`);
    },
  );

  const stored = async (entity: EntityTarget<ObjectLiteral>) => {
    const [found] = await dataSource.getRepository(entity).find({ order: { id: 'asc' }, take: 1 });
    return found!;
  };

  it.each([
    ['PET_PAGES', pets.PET_PAGES, null, Pet],
    ['PET_PAGES_OF_STATUS', pets.PET_PAGES_OF_STATUS, 'sold', Pet],
    ['ORDER_PAGES', orders.ORDER_PAGES, null, Order],
  ])(
    '%s writes each column of the entity, and no other',
    async (_name, statement, filter, entity) => {
      const [[, json]] = (await run<[string, string]>(poolOf(dataSource), statement, [
        ['one'],
        [filter],
        [0],
        [1],
      ])) as [[string, string]];
      const expected = await stored(entity);
      const columns = dataSource
        .getMetadata(entity)
        .columns.map(({ propertyName }) => propertyName);
      const item = withIntegersAsText(json.replace('000Z"', 'Z"'));
      expect(Object.keys(item)).toEqual(columns);
      expect(item).toEqual(JSON.parse(JSON.stringify(expected)));
    },
  );

  it('petsById writes each column of the entity, and no other', async () => {
    const repository = dataSource.getRepository(Pet);
    const rows = await run(poolOf(dataSource), pets.petsById(repository), [[1]]);
    const [[id, json]] = rows as [[string, string]];
    expect(id).toBe('1');
    expect(withIntegersAsText(json)).toEqual({ ...(await stored(Pet)) });
  });

  it('INSERT_PETS returns what the entity reads', async () => {
    const bello: NewPet = { name: 'Bello', categoryId: 7n, status: 'pending' };
    const [row] = await run(poolOf(dataSource), pets.INSERT_PETS, pets.newPetArguments([bello]));
    const [id, ...values] = row as string[];
    const json = values.pop();
    const pet = await dataSource.getRepository(Pet).findOneByOrFail({ id: id! });
    expect([id, ...values]).toEqual(Object.values(pet));
    expect(json).toBe(`{"id":${id},"name":"Bello","categoryId":7,"status":"pending"}`);
  });
});

/** The entities have an int64 as text, and instants to the millisecond. */
function withIntegersAsText(json: string): object {
  return JSON.parse(json.replaceAll(/(?<="):(-?[0-9]+)/g, ':"$1"'));
}
