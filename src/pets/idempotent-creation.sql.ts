import type { Statement } from '../database/statement.js';
import { PET_JSON } from './pets.sql.js';

const IS_OLD = `created_at < now() - interval '24 hours'`;

/**
 * A new pet and the record of its key, both or none: `$1` the API key's id, `$2` the Idempotency-Key, `$3` the body's
 * hash, `$4` to `$6` name, category and status. No row where the key stands for a pet already. A transaction that is
 * about to record the same key is waited for.
 */
export const INSERT_PET_ONCE: Statement = {
  name: 'insert-pet-once',
  text: `
  with record as (
    insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
    values ($1::bigint, $2, decode($3, 'hex'), nextval(pg_get_serial_sequence('pets', 'id')))
    on conflict (api_key_id, key) do update
       set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
     where earlier.${IS_OLD}
    returning pet_id
  ), pets as (
    insert into pets (id, name, category_id, status)
    select pet_id, $4, $5::bigint, $6 from record
    returning *
  )
  select id, ${PET_JSON} as json from pets`,
};

/** The pet that was created under `$2` by the API key `$1`. */
export const PET_BY_IDEMPOTENCY_KEY: Statement = {
  name: 'pet-by-idempotency-key',
  text: `
  select pets.id, ${PET_JSON}, encode(record.body_hash, 'hex')
    from idempotency_keys as record
    join pets on pets.id = record.pet_id
   where api_key_id = $1::bigint and key = $2`,
};

/** At most 1,000, so that no transaction is long. */
export const DELETE_OLD_IDEMPOTENCY_KEYS: Statement = {
  name: 'delete-old-idempotency-keys',
  text: `
  delete from idempotency_keys
   where (api_key_id, key) in (
         select api_key_id, key
           from idempotency_keys
          where ${IS_OLD}
          order by created_at
          limit 1000
            for update skip locked)
  returning key`,
};
