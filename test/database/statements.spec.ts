import { type DataSource, type EntityTarget, type ObjectLiteral } from 'typeorm';
import * as verifier from '../../src/auth/api-key-verifier.js';
import { columnsOf } from '../../src/database/columns.js';
import { ENTITIES } from '../../src/entities.js';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import * as standbys from '../../src/standbys/standbys.sql.js';
import { run, type Statement } from '../../src/database/statement.js';
import { INT64_MIN } from '../../src/int64.js';
import { Order } from '../../src/orders/order.entity.js';
import * as orders from '../../src/orders/orders.sql.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import { Pet } from '../../src/pets/pet.entity.js';
import * as pets from '../../src/pets/pets.sql.js';
import { fullPet } from '../support/full-pet.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';

const STATEMENTS = [verifier, orders, pets, standbys].flatMap((module) =>
  Object.values(module).filter(
    (value): value is Statement =>
      typeof value === 'object' && value !== null && 'text' in value && 'name' in value,
  ),
);

const FULL = fullPet(1, { name: 'Rex "the" cat', categoryId: INT64_MIN, status: 'sold' });
const OPTIONAL = columnsOf(Pet).filter(({ isOptional }) => isOptional);

describe('the statements', () => {
  let url: string;
  let dataSource: DataSource;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    dataSource = await servingDataSource(url, 1, { entities: ENTITIES }).initialize();
    await insertPets(FULL);
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
      await dataSource.query(`prepare "test of ${name}" as ${text}`);
    },
  );

  const insertPets = (pet: NewPet) =>
    run(poolOf(dataSource), pets.INSERT_PETS, pets.newPetArguments([pet]));

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
      expect(item).toEqual(withIntegersAsText(JSON.stringify(expected)));
    },
  );

  it('petsById writes each column of the entity, and no other', async () => {
    const repository = dataSource.getRepository(Pet);
    const rows = await run(poolOf(dataSource), pets.petsById(repository), [[1]]);
    const [[id, json]] = rows as [[string, string]];
    expect(id).toBe('1');
    expect(withIntegersAsText(json)).toEqual(withIntegersAsText(JSON.stringify(await stored(Pet))));
  });

  it('INSERT_PETS stores each column of the entity, and newPetJson writes what PostgreSQL writes', async () => {
    const repository = dataSource.getRepository(Pet);
    const { categoryId, name, status } = FULL;
    for (const pet of [FULL, { categoryId, name, status }]) {
      const [[position, id]] = (await insertPets(pet)) as [[number, string]];
      expect(position).toBe(1);
      const found = await repository.findOneByOrFail({ id });
      expect(withIntegersAsText(JSON.stringify(found))).toEqual({
        ...Object.fromEntries(OPTIONAL.map(({ property }) => [property, null])),
        ...withIntegersAsText(pets.newPetJson(id, pet)),
      });
      const rows = await run(poolOf(dataSource), pets.petsById(repository), [[id]]);
      expect(rows).toEqual([[id, pets.newPetJson(id, pet)]]);
    }
  });

  it('contentOf differs between pets that differ in one field, and stays what earlier versions stored', () => {
    expect(pets.contentOf({ name: 'Rex', categoryId: 7n, status: 'sold' })).toBe(
      '["Rex","7","sold"]',
    );
    for (const { property } of pets.NEW_PET_COLUMNS) {
      const other = { ...FULL, [property]: 'other' };
      expect(pets.contentOf(other)).not.toBe(pets.contentOf(FULL));
    }
    for (const { property } of OPTIONAL) {
      const without = { ...FULL, [property]: undefined };
      expect(pets.contentOf(without)).not.toBe(pets.contentOf(FULL));
    }
  });
});

/** An entity has an int64 as text, and an instant to the millisecond. */
function withIntegersAsText(json: string): object {
  return JSON.parse(json.replaceAll(/(?<="):(-?[0-9]+)/g, ':"$1"'));
}
