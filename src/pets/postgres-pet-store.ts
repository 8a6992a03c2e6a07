import { Injectable } from '@nestjs/common';
import { stringify } from 'lossless-json';
import type { PoolClient } from 'pg';
import { andNotDeleted, columnsOf, type EntityColumn, jsonOf } from '../database/columns.js';
import { run, runForEach, Statement } from '../database/statement.js';
import { Standbys } from '../standbys/standbys.js';
import type { NewPet } from './new-pet.dto.js';
import { Pet } from './pet.entity.js';
import { type CreatedPet, type Creation, NEW_PET_COLUMNS, PetStore } from './pet-store.js';

export const PET_JSON = jsonOf(columnsOf(Pet));

const COLUMNS = NEW_PET_COLUMNS.map(({ name }) => name).join(', ');

/** What is stored in the column. JSON is stored from its text. */
function valueOf(pet: NewPet, { property, type }: EntityColumn): unknown {
  const value = pet[property as keyof NewPet];
  return type === 'jsonb' && value !== undefined ? stringify(value) : value;
}

/** @returns the arguments of the statements that insert pets, an array for each of {@link NEW_PET_COLUMNS}. */
export const newPetArguments = (pets: readonly NewPet[]) =>
  NEW_PET_COLUMNS.map((column) => pets.map((pet) => valueOf(pet, column)));

const parametersFrom = (first: number) =>
  NEW_PET_COLUMNS.map(({ type }, i) => `$${first + i}::${type}[]`).join(', ');

export const FIND_PETS = new Statement(
  'pets-by-id',
  `
  select id::text, ${PET_JSON} from pets where id = any($1::bigint[])${andNotDeleted(columnsOf(Pet))}`,
);

/** New pets, from {@link newPetArguments}: the id of each, its columns, and its position among the parameters, from 1. */
export const NEW_PETS = `
    select nextval('pets_id_seq') as id, request.*
      from unnest(${parametersFrom(1)})
           with ordinality as request (${COLUMNS}, position)`;

/**
 * Inserts {@link NEW_PETS}. Returns in any order the position of each, its id, and its JSON as stored. The ids are assigned
 * before the insert, so that each row finds its request.
 */
const INSERT_PETS = new Statement(
  'insert-pets',
  `
  with new as materialized (${NEW_PETS}
  ), stored as (
    insert into pets (id, ${COLUMNS})
    select id, ${COLUMNS} from new
    returning id, ${PET_JSON} as json
  )
  select new.position::int, id::text, stored.json
    from new
    join stored using (id)`,
);

const IS_OLD = `created_at < now() - interval '24 hours'`;

/**
 * Inserts pets, and a record of the Idempotency-Key of each: both or neither, and nothing if the key has a record of the
 * last 24 hours. The parameters are arrays: API key ids, Idempotency-Keys, all different, body hashes, then
 * {@link newPetArguments}. Returns in any order the position of each request, from 1; the id and the JSON of the pet of
 * its key; the body hash that the key was used with; whether an earlier request created the pet. The id is null if
 * another transaction records the key: the statement does not wait for it, but only tries the key's advisory lock. Of two
 * integers, it is never that of migrations, and keys with equal hashes only block each other for one API key.
 *
 * The session of the first request may have been ended while its commit waited for synchronous standbys. A commit waits
 * for them, and so for all earlier ones, if the transaction has written something: a message, if it is not a pet.
 */
const INSERT_PETS_ONCE = new Statement(
  'insert-pets-once',
  `
  with new as materialized (
    select request.*, known.*,
           case when known_id is null
             then pg_try_advisory_xact_lock(hashint8(api_key_id), hashtext(key))
           end as is_free,
           case when known_id is not null and current_setting('synchronous_standby_names') <> ''
             then pg_logical_emit_message(true, 'animal-store', 'awaits earlier commits')
           end as awaited
      from unnest($1::bigint[], $2::text[], $3::text[], ${parametersFrom(4)})
           with ordinality as request (api_key_id, key, body_hash, ${COLUMNS}, position)
      left join lateral (
           select pet_id as known_id, encode(record.body_hash, 'hex') as known_hash
             from idempotency_keys as record
            where record.api_key_id = request.api_key_id and record.key = request.key and not ${IS_OLD}
            limit 1) as known on true
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
    returning id, ${PET_JSON} as json
  )
  select new.position::int, coalesce(known_id, pet_id)::text,
         coalesce(stored.json, (select ${PET_JSON} from pets where id = new.known_id)),
         coalesce(known_hash, body_hash), known_id is not null
    from new
    left join record using (api_key_id, key)
    left join stored on stored.id = pet_id`,
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

/** With one statement for all that wait. Reads run on a standby if there is one. */
@Injectable()
export class PostgresPetStore extends PetStore {
  constructor(private readonly standbys: Standbys) {
    super();
  }

  override async insert(pets: readonly NewPet[], session: PoolClient) {
    type Row = [id: string, json: string];
    const rows = await runForEach<Row>(session, INSERT_PETS, newPetArguments(pets));
    return rows.map((row) => row && { id: row[0], json: row[1] });
  }

  override async insertOnce(creations: readonly Creation[], session: PoolClient) {
    type Row = [id: string | null, json: string, bodyHash: string, isReplayed: boolean];
    const rows = await runForEach<Row>(session, INSERT_PETS_ONCE, [
      creations.map(({ apiKeyId }) => apiKeyId),
      creations.map(({ key }) => key),
      creations.map(({ bodyHash }) => bodyHash),
      ...newPetArguments(creations.map(({ pet }) => pet)),
    ]);
    return rows.map((row): CreatedPet | undefined => {
      const [id, json, bodyHash, isReplayed] = row!;
      return id === null ? undefined : { id, json, bodyHash, isReplayed };
    });
  }

  override async find(ids: readonly bigint[], session: PoolClient, requests = ids.length) {
    const rows = await this.standbys.read(session, (server) =>
      run<[id: string, json: string]>(server, FIND_PETS, [ids], requests),
    );
    const found = new Map(rows.map(([id, json]) => [id, { id, json }]));
    return ids.map((id) => found.get(String(id)));
  }

  override async deleteOldKeys(session: PoolClient): Promise<number> {
    return (await run(session, DELETE_OLD_IDEMPOTENCY_KEYS)).length;
  }
}
