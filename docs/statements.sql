-- Every statement that the service sends, but for what TypeORM asks PostgreSQL when it connects.
-- Made by npm run sql-files.

-- Which of the API keys that requests came with are valid. Prepared as valid-keys.
select id, encode(hash, 'hex'), extract(epoch from expires_at) * 1000
  from api_keys
 where hash = any (array(select decode(sent, 'hex') from unnest($1::text[]) as sent))
   and revoked_at is null and (expires_at is null or expires_at > now());

-- Notes which API keys were used, to the minute. Prepared as note-key-use.
update api_keys
   set last_used_at = now()
 where id = any($1::bigint[])
   and (last_used_at is null or last_used_at < now() - interval '1 minute');

-- listPets: the pages that requests wait for. Prepared as pet-pages.
 select wanted.key, page.items
   from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
lateral (
         select string_agg('{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
         || ',"status":"' || status || '"}', E'\n' order by id) as items
           from (select *
                   from pets
                  where id >= wanted.start
                  order by id
                  limit wanted.size + 1) as pets
        ) as page;

-- listPets with a status. Prepared as pet-pages-of-status.
 select wanted.key, page.items
   from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
lateral (
         select string_agg('{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
         || ',"status":"' || status || '"}', E'\n' order by status, id) as items
           from (select *
                   from pets
                  where (status, id) >= (wanted.filter, wanted.start) and (status, id) <= (wanted.filter, 9223372036854775807)
                  order by status, id
                  limit wanted.size + 1) as pets
        ) as page;

-- createPet. Prepared as insert-pets.
insert into pets (name, category_id, status)
select * from unnest($1::text[], $2::bigint[], $3::text[])
returning id::text, name::text, category_id::text, status::text, '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
        || ',"status":"' || status || '"}' as json;

-- createPet with an Idempotency-Key. Prepared as insert-pets-once.
with wanted as materialized (
  select *,
         case (select 1 from idempotency_keys as known
                where known.api_key_id = request.api_key_id and known.key = request.key
                  and not known.created_at < now() - interval '24 hours'
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
   where earlier.created_at < now() - interval '24 hours'
  returning api_key_id, key, pet_id
), pets as (
  insert into pets (id, name, category_id, status)
  select pet_id, name, category_id, status from record join wanted using (api_key_id, key)
  returning id, '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
        || ',"status":"' || status || '"}' as json
)
select api_key_id, key, wanted.body_hash, is_free, pets.id, pets.json
  from wanted
  left join record using (api_key_id, key)
  left join pets on pets.id = record.pet_id;

-- createPet with an Idempotency-Key that stands for an animal. Prepared as pets-by-idempotency-key.
select wanted.api_key_id, wanted.key, encode(known.body_hash, 'hex'), id, '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
        || ',"status":"' || status || '"}'
  from unnest($1::bigint[], $2::text[]) as wanted (api_key_id, key)
 cross join lateral (
       select body_hash, pet_id from idempotency_keys as record
        where record.api_key_id = wanted.api_key_id and record.key = wanted.key
        limit 1) as known
  join pets on pets.id = known.pet_id;

-- Deletes Idempotency-Keys older than 24 hours, every ten minutes. Prepared as delete-old-idempotency-keys.
delete from idempotency_keys
 where (api_key_id, key) in (
       select api_key_id, key
         from idempotency_keys
        where created_at < now() - interval '24 hours'
        order by created_at
        limit 1000
          for update skip locked)
returning key;

-- getPet.
SELECT "pet"."id" AS "pet_id", "pet"."name" AS "pet_name", "pet"."category_id" AS "pet_category_id", "pet"."status" AS "pet_status" FROM "pets" "pet" WHERE "pet"."id" = any($1);

-- listOrders. Prepared as order-pages.
 select wanted.key, page.items
   from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
lateral (
         select string_agg('{"id":' || id || ',"petId":' || pet_id || ',"status":"' || status
         || '","placedAt":"' || to_char(placed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"}', E'\n' order by id) as items
           from (select *
                   from orders
                  where id >= wanted.start
                  order by id
                  limit wanted.size + 1) as orders
        ) as page;

-- Readiness: whether the database takes writes.
show transaction_read_only;

-- Readiness: which rights the role lacks.
select privilege || ' on ' || relation as missing
       from unnest($1::text[], $2::text[]) with ordinality as needed (relation, privilege, position)
      where not coalesce(
              case privilege
                when 'usage' then has_sequence_privilege(to_regclass(relation), privilege)
                else has_table_privilege(to_regclass(relation), privilege)
              end, false)
      order by position;

-- Readiness, and a start: which migrations are applied.
select name from migrations;

-- A start: whether the database can hold the tables.
select current_setting('server_encoding') as encoding, current_schema() as schema,
            current_setting('search_path') as path;

-- A command, and a start before it serves: dates that the driver reads.
set datestyle = 'ISO';

-- A start: whether sessions have their settings.
select name, setting, quote_ident(current_user) as role from pg_settings where name = any($1);
