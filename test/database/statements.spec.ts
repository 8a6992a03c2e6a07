import { type DataSource, type EntityTarget, type ObjectLiteral } from 'typeorm';
import { CITUS } from '../../src/citus/citus.js';
import { columnsOf } from '../../src/database/columns.js';
import { poolOf, servingDataSource } from '../../src/database/data-source.js';
import { run, type Statement } from '../../src/database/statement.js';
import { INT64_MIN } from '../../src/int64.js';
import { Order } from '../../src/orders/order.entity.js';
import * as orders from '../../src/orders/orders.service.js';
import type { NewPet } from '../../src/pets/new-pet.dto.js';
import { Pet } from '../../src/pets/pet.entity.js';
import * as pets from '../../src/pets/pets.sql.js';
import { fullPet } from '../support/full-pet.js';
import { createMigratedDatabase, dropDatabase } from '../support/service.js';

const FULL = fullPet(1, { name: 'Rex "the" cat', categoryId: INT64_MIN, status: 'sold' });
const { categoryId, name, status } = FULL;
const OPTIONAL = columnsOf(Pet).filter(({ isOptional }) => isOptional);

describe.each([
  ['a statement', {}],
  ['the form for Citus', CITUS],
])('%s', (_title, engine) => {
  let url: string;
  let dataSource: DataSource;
  beforeAll(async () => {
    url = await createMigratedDatabase();
    dataSource = await servingDataSource(url, 1, engine).initialize();
    await run(poolOf(dataSource), pets.INSERT_PETS, pets.newPetArguments([FULL]));
    await dataSource.query(
      `insert into orders (pet_id, placed_at) values (1, '2026-11-21T09:30Z')`,
    );
  });
  afterAll(async () => {
    await dataSource.destroy();
    await dropDatabase(url);
  });

  /** The first row, with each property of the entity. */
  const stored = async (entity: EntityTarget<ObjectLiteral>) => {
    const [found] = await dataSource.getRepository(entity).find({ order: { id: 'asc' }, take: 1 });
    return withIntegersAsText(JSON.stringify(found));
  };

  it.each([
    ['PET_PAGES', pets.PET_PAGES, null, Pet],
    ['PET_PAGES_OF_STATUS', pets.PET_PAGES_OF_STATUS, 'sold', Pet],
    ['ORDER_PAGES', orders.ORDER_PAGES, null, Order],
  ])(
    'of %s writes each column of the entity, and no other',
    async (_name, statement, filter, entity) => {
      const values = [['one'], [filter], [0], [1]];
      const [row] = await run<[string, string]>(poolOf(dataSource), statement, values);
      expect(withIntegersAsText(row![1].replace('000Z"', 'Z"'))).toEqual(await stored(entity));
    },
  );

  it('of petsById writes each column of the entity, and no other', async () => {
    const repository = dataSource.getRepository(Pet);
    const rows = await run(poolOf(dataSource), pets.petsById(repository), [[1]]);
    const [[id, json]] = rows as [[string, string]];
    expect(id).toBe('1');
    expect(withIntegersAsText(json)).toEqual(await stored(Pet));
  });

  it.each([
    ['a full pet', FULL],
    ['a pet without optional fields', { categoryId, name, status }],
  ])(
    'of INSERT_PETS and INSERT_PETS_ONCE store and return each field of %s',
    async (title, pet) => {
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
    },
  );
});

it('contentOf differs between pets that differ in a field', () => {
  const required = { categoryId, name, status };
  const different: NewPet[] = [
    FULL,
    ...pets.NEW_PET_COLUMNS.map(({ property }) => ({ ...FULL, [property]: 'other' })),
    ...OPTIONAL.map(({ property }) => ({ ...FULL, [property]: undefined })),
    ...OPTIONAL.map(({ property }) => ({ ...required, [property]: 'the same' })),
  ];
  expect(new Set(different.map(pets.contentOf)).size).toBe(different.length);
});

/** An entity has an int64 as text, and an instant to the millisecond. */
function withIntegersAsText(json: string): object {
  return JSON.parse(json.replaceAll(/(?<="):(-?[0-9]+)/g, ':"$1"'));
}
