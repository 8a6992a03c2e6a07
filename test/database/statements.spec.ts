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

  const { categoryId, name, status } = FULL;
  it.each([
    ['a full pet', FULL],
    ['a pet without optional fields', { categoryId, name, status }],
  ])('INSERT_PETS and INSERT_PETS_ONCE store and return each field of %s', async (title, pet) => {
    const key = [['1'], [title], ['00'.repeat(32)]];
    for (const [statement, ...others] of [
      [pets.INSERT_PETS],
      [pets.INSERT_PETS_ONCE, ...key],
      [pets.INSERT_PETS_ONCE, ...key],
    ] as [Statement, ...string[][]][]) {
      const values = [...others, ...pets.newPetArguments([pet])];
      const [[position, id, json]] = (await run(poolOf(dataSource), statement, values)) as [
        [number, string, string],
      ];
      expect(position).toBe(1);
      const sent = Object.entries(pet).map(([property, value]) => [
        property,
        typeof value === 'string' ? value : String(value),
      ]);
      const expected = { id, ...Object.fromEntries(sent) };
      expect(withIntegersAsText(json)).toEqual(expected);
      const found = await dataSource.getRepository(Pet).findOneByOrFail({ id });
      expect(withIntegersAsText(JSON.stringify(found))).toEqual({
        ...Object.fromEntries(OPTIONAL.map(({ property }) => [property, null])),
        ...expected,
      });
    }
  });

  it('contentOf differs between pets that differ in a field, and stays what earlier versions stored', () => {
    expect(pets.contentOf({ name: 'Rex', categoryId: 7n, status: 'sold' })).toBe(
      '["Rex","7","sold"]',
    );
    const required = { categoryId, name, status };
    const different: NewPet[] = [
      FULL,
      ...pets.NEW_PET_COLUMNS.map(({ property }) => ({ ...FULL, [property]: 'other' })),
      ...OPTIONAL.map(({ property }) => ({ ...FULL, [property]: undefined })),
      ...OPTIONAL.map(({ property }) => ({ ...required, [property]: 'the same' })),
    ];
    expect(new Set(different.map(pets.contentOf)).size).toBe(different.length);
  });
});

/** An entity has an int64 as text, and an instant to the millisecond. */
function withIntegersAsText(json: string): object {
  return JSON.parse(json.replaceAll(/(?<="):(-?[0-9]+)/g, ':"$1"'));
}
