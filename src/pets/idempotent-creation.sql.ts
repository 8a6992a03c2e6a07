import { Statement } from '../database/statement.js';
import { PET_JSON } from './pets.sql.js';

/** Identifies an Idempotency-Key together with its API key: clients of two API keys may choose the same one. */
export const scopedKey = (apiKeyId: string, key: string) => `${apiKeyId} ${key}`;

const IS_OLD = `created_at < now() - interval '24 hours'`;

/**
 * Inserts pets, and a record of the Idempotency-Key of each: for each request both or neither. The parameters are
 * arrays with an element for each request: `$1` API key ids, `$2` Idempotency-Keys, `$3` body hashes, `$4` names, `$5`
 * categories, `$6` statuses. No two requests may have the same API key and Idempotency-Key.
 *
 * Returns a row for each request, in any order: API key id, Idempotency-Key, body hash, `is_free`, and the id and the
 * JSON of the new pet, which are null if none was created.
 *
 * `is_free` is null if the key has a record of the last 24 hours. The statement then neither takes the key's advisory
 * lock nor writes the record, so it does not wait for a transaction that has locked the record. For any other key,
 * `is_free` says whether its advisory lock was available. If it was not, another transaction is about to record the
 * key. The statement does not wait for the lock: that would delay all requests of the batch.
 */
export const INSERT_PETS_ONCE = new Statement(
  'insert-pets-once',
  `
  with wanted as materialized (
    select *,
           case (select 1 from idempotency_keys as known
                  where known.api_key_id = request.api_key_id and known.key = request.key
                    and not known.${IS_OLD}
                  limit 1)
             when 1 then null
             else pg_try_advisory_xact_lock(hashtextextended(api_key_id || ' ' || key, 0))
           end as is_free
      from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[])
        as request (api_key_id, key, body_hash, name, category_id, status)
  ), record as (
    insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
    select api_key_id, key, decode(body_hash, 'hex'), nextval(pg_get_serial_sequence('pets', 'id'))
      from wanted
     where is_free
    on conflict (api_key_id, key) do update
       set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
     where earlier.${IS_OLD}
    returning api_key_id, key, pet_id
  ), pets as (
    insert into pets (id, name, category_id, status)
    select pet_id, name, category_id, status from record join wanted using (api_key_id, key)
    returning id, ${PET_JSON} as json
  )
  select api_key_id, key, wanted.body_hash, is_free, pets.id, pets.json
    from wanted
    left join record using (api_key_id, key)
    left join pets on pets.id = record.pet_id`,
);

/**
 * The pets that were created with these Idempotency-Keys. `$1` has the API key ids and `$2` the Idempotency-Keys, in
 * the same order. Each key is looked up separately: a join that PostgreSQL planned while the table was empty might read
 * the whole table later, as a prepared statement keeps its plan.
 */
export const PETS_BY_IDEMPOTENCY_KEY = new Statement(
  'pets-by-idempotency-key',
  `
  select wanted.api_key_id, wanted.key, encode(known.body_hash, 'hex'), id, ${PET_JSON}
    from unnest($1::bigint[], $2::text[]) as wanted (api_key_id, key)
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
