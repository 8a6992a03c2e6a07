import type { Repository } from 'typeorm';
import { columnsOf, jsonOf } from '../database/columns.js';
import { Statement } from '../database/statement.js';
import { INT64_MAX } from '../int64.js';
import { BY_ID, PageStatement } from '../listing/pages.js';
import type { NewPet } from './new-pet.dto.js';
import { Pet } from './pet.entity.js';

/** A Pet as JSON text (interface, part 2). */
export const PET_JSON = jsonOf(columnsOf(Pet));

/** The columns that a client sets. */
export const NEW_PET_COLUMNS = columnsOf(Pet).filter(({ name }) => name !== 'id');

const COLUMNS = NEW_PET_COLUMNS.map(({ name }) => name).join(', ');

const columnsFrom = (row: string) => NEW_PET_COLUMNS.map(({ name }) => `${row}.${name}`).join(', ');

/** The parameters from `$first` on: for each column, an array with a value for each pet. */
const parametersFrom = (first: number) =>
  NEW_PET_COLUMNS.map(({ type }, i) => `$${first + i}::${type}[]`).join(', ');

const valueOf = (pet: NewPet, property: string) => pet[property as keyof NewPet];

/** @returns the arguments of the statements that insert pets, an array for each of {@link NEW_PET_COLUMNS}. */
export const newPetArguments = (pets: readonly NewPet[]) =>
  NEW_PET_COLUMNS.map(({ property }) => pets.map((pet) => valueOf(pet, property)));

/** @returns a new pet as {@link PET_JSON} writes it. */
export function newPetJson(id: string, pet: NewPet): string {
  const members = NEW_PET_COLUMNS.flatMap(({ property }) => {
    const value = valueOf(pet, property);
    const text = typeof value === 'bigint' ? value : JSON.stringify(value);
    return value === undefined ? [] : [`,"${property}":${text}`];
  });
  return `{"id":${id}${members.join('')}}`;
}

/**
 * @returns the content of a pet, as text. Its hash is stored with an Idempotency-Key. Hashes that an earlier version
 *   stored must still match, so optional fields are named, and are left out if the client did not send them.
 */
export function contentOf(pet: NewPet): string {
  const content: unknown[] = [];
  const optional: Record<string, string> = {};
  for (const { property, isOptional } of NEW_PET_COLUMNS) {
    const value = valueOf(pet, property);
    if (!isOptional) {
      content.push(String(value));
    } else if (value !== undefined) {
      optional[property] = String(value);
    }
  }
  return JSON.stringify(Object.keys(optional).length > 0 ? [...content, optional] : content);
}

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

/** Whether the row was stored as it was sent. A trigger of the table's owner may have changed it. */
const IS_UNCHANGED = `(${columnsFrom('stored')}) is not distinct from (${columnsFrom('new')})`;

/**
 * Inserts pets. The parameters are {@link newPetArguments}. Returns a row for each pet that is stored as it was sent,
 * in any order: its position among the parameters, from 1, and its id. The ids are assigned before the insert, so that
 * each row finds its request.
 */
export const INSERT_PETS = new Statement(
  'insert-pets',
  `
  with new as materialized (
    select nextval('pets_id_seq') as id, request.*
      from unnest(${parametersFrom(1)})
           with ordinality as request (${COLUMNS}, position)
  ), stored as (
    insert into pets (id, ${COLUMNS})
    select id, ${COLUMNS} from new
    returning id, ${COLUMNS}
  )
  select new.position::int, new.id::text
    from new
    join stored on stored.id = new.id and ${IS_UNCHANGED}`,
);

/** Identifies an Idempotency-Key together with its API key: clients of two API keys may choose the same one. */
export const scopedKey = (apiKeyId: string, key: string) => `${apiKeyId} ${key}`;

const IS_OLD = `created_at < now() - interval '24 hours'`;

/**
 * Inserts pets, and a record of the Idempotency-Key of each: for each request both or neither. The parameters are
 * arrays with an element for each request: `$1` API key ids, `$2` Idempotency-Keys, `$3` body hashes, then
 * {@link newPetArguments}. No two requests may have the same API key and Idempotency-Key.
 *
 * Returns a row for each request, in any order: its position among the parameters, from 1, `is_free`, the id of the new
 * pet, which is null if none was created, and whether the pet is stored as it was sent.
 *
 * `is_free` is null if the key has a record of the last 24 hours. For any other key, it says whether no other
 * transaction is about to record the key or to delete its old record. The statement waits for neither, because that
 * would delay all requests of the batch: it tries the key's advisory lock, and skips an old record that is locked.
 */
export const INSERT_PETS_ONCE = new Statement(
  'insert-pets-once',
  `
  with new as materialized (
    select request.*,
           case (select ${IS_OLD} from idempotency_keys as known
                  where known.api_key_id = request.api_key_id and known.key = request.key)
             when false then null
             when true then exists (select from idempotency_keys as old
                                     where old.api_key_id = request.api_key_id and old.key = request.key
                                       for update skip locked)
                        and pg_try_advisory_xact_lock(hashtextextended(api_key_id || ' ' || key, 0))
             else pg_try_advisory_xact_lock(hashtextextended(api_key_id || ' ' || key, 0))
           end as is_free
      from unnest($1::bigint[], $2::text[], $3::text[], ${parametersFrom(4)})
           with ordinality as request (api_key_id, key, body_hash, ${COLUMNS}, position)
  ), record as (
    insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
    select api_key_id, key, decode(body_hash, 'hex'), nextval('pets_id_seq')
      from new
     where is_free
    on conflict (api_key_id, key) do update
       set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
     where earlier.${IS_OLD}
    returning api_key_id, key, pet_id
  ), stored as (
    insert into pets (id, ${COLUMNS})
    select pet_id, ${COLUMNS} from record join new using (api_key_id, key)
    returning id, ${COLUMNS}
  )
  select new.position::int, is_free, pet_id::text, stored.id is not null
    from new
    left join record using (api_key_id, key)
    left join stored on stored.id = record.pet_id and ${IS_UNCHANGED}`,
);

/**
 * The pets that were created with these Idempotency-Keys. `$1` has the API key ids and `$2` the Idempotency-Keys, in
 * the same order. Returns a row for each key that has a pet: its position among the parameters, from 1, the body hash,
 * and the pet's id and JSON. Each key is looked up separately: a join that PostgreSQL planned while the table was empty
 * might read the whole table later, as a prepared statement keeps its plan.
 */
export const PETS_BY_IDEMPOTENCY_KEY = new Statement(
  'pets-by-idempotency-key',
  `
  select wanted.position::int, encode(known.body_hash, 'hex'), id::text, ${PET_JSON}
    from unnest($1::bigint[], $2::text[]) with ordinality as wanted (api_key_id, key, position)
   cross join lateral (
         select body_hash, pet_id from idempotency_keys as record
          where record.api_key_id = wanted.api_key_id and record.key = wanted.key
          limit 1) as known
    join pets on pets.id = known.pet_id`,
);

/** At most 1,000, so that no transaction is long. */
export const DELETE_OLD_IDEMPOTENCY_KEYS = new Statement(
  'delete-old-idempotency-keys',
  `
  delete from idempotency_keys
   where (api_key_id, key) in (
         select api_key_id, key
           from idempotency_keys
          where ${IS_OLD}
          order by created_at
          limit 1000
            for update skip locked)
  returning key`,
);
