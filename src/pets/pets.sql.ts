import type { Repository } from 'typeorm';
import { Statement } from '../database/statement.js';
import { INT64_MAX } from '../int64.js';
import { BY_ID, PageStatement } from '../listing/pages.sql.js';
import type { NewPet } from './new-pet.dto.js';
import type { Pet } from './pet.entity.js';

/** @returns the arguments of {@link INSERT_PETS}: names, categories and statuses. */
export const newPetArguments = (pets: readonly NewPet[]) => [
  pets.map(({ name }) => name),
  pets.map(({ categoryId }) => categoryId),
  pets.map(({ status }) => status),
];

/**
 * @returns the same text for pets that are alike in all that a client sends. Its hash is stored with an
 *   Idempotency-Key, so a later version adds a field only if the client sent it.
 */
export const contentOf = ({
  name,
  categoryId,
  status,
}: Partial<Record<keyof NewPet, string | bigint | null>>) =>
  JSON.stringify([name, String(categoryId), status]);

/** A Pet as JSON text (interface, part 2), written by PostgreSQL, which has every int64 exactly. */
export const PET_JSON = `'{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
          || ',"status":"' || status || '"}'`;

/**
 * The pets with the ids `$1`: their ids and JSON. TypeORM writes the text once, from the entity, and the statement is
 * prepared like the others.
 */
export const petsById = (pets: Repository<Pet>): Statement => {
  const [text] = pets
    .createQueryBuilder('pets')
    .select('pets.id::text', 'id')
    .addSelect(PET_JSON, 'json')
    .where('pets.id = any(:ids)', { ids: [] })
    .getQueryAndParameters();
  return new Statement('pets-by-id', text);
};

export const PET_PAGES = new PageStatement('pet-pages', {
  table: 'pets',
  json: PET_JSON,
  ...BY_ID,
});

/**
 * The condition is a range of (status, id), and no `status = …`: for that, the planner might walk the primary key and
 * filter, which is slow for a rare status. Only the index on (status, id) has this range in this order.
 */
export const PET_PAGES_OF_STATUS = new PageStatement('pet-pages-of-status', {
  table: 'pets',
  json: PET_JSON,
  range: (start, filter) =>
    `(status, id) >= (${filter}, ${start}) and (status, id) <= (${filter}, ${INT64_MAX})`,
  order: 'status, id',
  isFiltered: true,
});

/**
 * New pets, with {@link newPetArguments}. Rows come back in any order, all as text: of a column whose type a later
 * version changes, prepared statements could no longer be run.
 */
export const INSERT_PETS = new Statement(
  'insert-pets',
  `
  insert into pets (name, category_id, status)
  select * from unnest($1::text[], $2::bigint[], $3::text[])
  returning id::text, name::text, category_id::text, status::text, ${PET_JSON} as json`,
);
