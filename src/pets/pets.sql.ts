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
 * @returns the content of a pet, as text. Its hash is stored with an Idempotency-Key. If a later version of the service
 *   adds a field, the text may contain it only if the client sent it. Otherwise stored hashes would no longer match.
 */
export const contentOf = ({
  name,
  categoryId,
  status,
}: Partial<Record<keyof NewPet, string | bigint | null>>) =>
  JSON.stringify([name, String(categoryId), status]);

/** A Pet as JSON text (interface, part 2). PostgreSQL writes it, so every int64 is exact. */
export const PET_JSON = `'{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
          || ',"status":"' || status || '"}'`;

/**
 * The ids and the JSON of the pets whose ids are in `$1`. TypeORM writes the SQL from the entity, once. The statement
 * is prepared like the others.
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
 * The condition is a range of (status, id), for which only the index on (status, id) can be used. With `status = …`,
 * the planner might read the primary key and filter the rows, which is slow for a rare status.
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
 * Inserts pets. The parameters are {@link newPetArguments}. Returns their rows in any order. All columns are cast to
 * text, so that a later migration that changes the type of a column does not change the type of the result. Otherwise
 * PostgreSQL would reject the prepared statement.
 */
export const INSERT_PETS = new Statement(
  'insert-pets',
  `
  insert into pets (name, category_id, status)
  select * from unnest($1::text[], $2::bigint[], $3::text[])
  returning id::text, name::text, category_id::text, status::text, ${PET_JSON} as json`,
);
