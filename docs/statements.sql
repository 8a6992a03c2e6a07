-- Every statement that the service sends, but for what TypeORM asks PostgreSQL when it connects. Made by npm run
-- sql-files, which also made the plans: by EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) of a call with
-- the arguments in brackets, on PostgreSQL 15.18 with a million rows in each table, all of them in memory, and with the
-- settings of the service's sessions. A test checks that the statements are current. It does not make the plans again.

-- Which of the API keys that requests came with are valid. Prepared as valid-keys.
select id, encode(hash, 'hex'), (extract(epoch from expires_at) - extract(epoch from now())) * 1000
  from api_keys
 where hash = any (array(select decode(sent, 'hex') from unnest($1::text[]) as sent))
   and revoked_at is null and (expires_at is null or expires_at > now());
-- Plan of (array[encode(sha256('500000'), 'hex')]):
--   Index Scan using api_keys_hash_key on api_keys (actual rows=1 loops=1)
--     Index Cond: (hash = ANY ($0))
--     Filter: ((revoked_at IS NULL) AND ((expires_at IS NULL) OR (expires_at > now())))
--     Buffers: shared hit=4
--     InitPlan 1 (returns $0)
--       ->  Function Scan on unnest sent (actual rows=1 loops=1)

-- Notes which API keys were used, to the minute. Prepared as note-key-use.
update api_keys
   set last_used_at = now()
 where id = any($1::bigint[])
   and (last_used_at is null or last_used_at < now() - interval '1 minute');
-- Plan of ('{500000}'):
--   Update on api_keys (actual rows=0 loops=1)
--     Buffers: shared hit=19
--     ->  Index Scan using api_keys_pkey on api_keys (actual rows=1 loops=1)
--           Index Cond: (id = ANY ($1))
--           Filter: ((last_used_at IS NULL) OR (last_used_at < (now() - '00:01:00'::interval)))
--           Buffers: shared hit=6

-- listPets: the pages that requests wait for. Prepared as pet-pages.
 select wanted.key, page.items
   from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
lateral (
         select string_agg('{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}', E'\n' order by id) as items
           from (select *
                   from pets
                  where id >= wanted.start
                  order by id
                  limit wanted.size + 1) as pets
        ) as page;
-- Plan of ('{page}', '{null}', '{500000}', '{20}'):
--   Nested Loop (actual rows=1 loops=1)
--     Buffers: shared hit=4
--     ->  Function Scan on wanted (actual rows=1 loops=1)
--     ->  Aggregate (actual rows=1 loops=1)
--           Buffers: shared hit=4
--           ->  Limit (actual rows=21 loops=1)
--                 Buffers: shared hit=4
--                 ->  Index Scan using pets_pkey on pets (actual rows=21 loops=1)
--                       Index Cond: (id >= wanted.start)
--                       Buffers: shared hit=4

-- listPets with a status. Prepared as pet-pages-of-status.
 select wanted.key, page.items
   from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
lateral (
         select string_agg('{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}', E'\n' order by status, id) as items
           from (select *
                   from pets
                  where (status, id) >= (wanted.filter, wanted.start) and (status, id) <= (wanted.filter, 9223372036854775807)
                  order by status, id
                  limit wanted.size + 1) as pets
        ) as page;
-- Plan of ('{page}', '{pending}', '{500000}', '{20}'):
--   Nested Loop (actual rows=1 loops=1)
--     Buffers: shared hit=24
--     ->  Function Scan on wanted (actual rows=1 loops=1)
--     ->  Aggregate (actual rows=1 loops=1)
--           Buffers: shared hit=24
--           ->  Limit (actual rows=21 loops=1)
--                 Buffers: shared hit=24
--                 ->  Index Scan using pets_status_id_idx on pets (actual rows=21 loops=1)
--                       Index Cond: ((ROW(status, id) >= ROW(wanted.filter, wanted.start)) AND (ROW(status, id) <= ROW(wanted.filter, '9223372036854775807'::bigint)))
--                       Buffers: shared hit=24

-- createPet. Prepared as insert-pets.
with new as materialized (
  select nextval('pets_id_seq') as id, request.*
    from unnest($1::character varying[], $2::bigint[], $3::text[])
         with ordinality as request (name, category_id, status, position)
), stored as (
  insert into pets (id, name, category_id, status)
  select id, name, category_id, status from new
  returning id, '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' as json
)
select new.position::int, id::text, stored.json
  from new
  join stored using (id);
-- Plan of ('{Rex}', '{1}', '{available}'):
--   Hash Join (actual rows=1 loops=1)
--     Hash Cond: (new.id = stored.id)
--     Buffers: shared hit=6
--     CTE new
--       ->  Function Scan on request (actual rows=1 loops=1)
--             Buffers: shared hit=1
--     CTE stored
--       ->  Insert on pets (actual rows=1 loops=1)
--             Buffers: shared hit=5
--             ->  CTE Scan on new new_1 (actual rows=1 loops=1)
--     ->  CTE Scan on new (actual rows=1 loops=1)
--           Buffers: shared hit=1
--     ->  Hash (actual rows=1 loops=1)
--           Buckets: 1024  Batches: 1  Memory Usage: 9kB
--           Buffers: shared hit=5
--           ->  CTE Scan on stored (actual rows=1 loops=1)
--                 Buffers: shared hit=5

-- createPet with an Idempotency-Key. Prepared as insert-pets-once.
with new as materialized (
  select request.*, known.*,
         case when known_id is null
           then pg_try_advisory_xact_lock(hashtextextended(api_key_id || ' ' || key, 0))
         end as is_free
    from unnest($1::bigint[], $2::text[], $3::text[], $4::character varying[], $5::bigint[], $6::text[])
         with ordinality as request (api_key_id, key, body_hash, name, category_id, status, position)
    left join lateral (
         select pet_id as known_id, encode(record.body_hash, 'hex') as known_hash
           from idempotency_keys as record
          where record.api_key_id = request.api_key_id and record.key = request.key and not created_at < now() - interval '24 hours'
          limit 1) as known on true
), record as (
  insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
  select api_key_id, key, decode(body_hash, 'hex'), nextval('pets_id_seq')
    from new
   where is_free
  on conflict (api_key_id, key) do update
     set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
   where earlier.created_at < now() - interval '24 hours'
  returning api_key_id, key, pet_id
), stored as (
  insert into pets (id, name, category_id, status)
  select pet_id, name, category_id, status from record join new using (api_key_id, key)
  returning id, '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' as json
)
select new.position::int, coalesce(known_id, pet_id)::text,
       coalesce(stored.json, (select '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' from pets where id = known_id)),
       coalesce(known_hash, body_hash), known_id is not null
  from new
  left join record using (api_key_id, key)
  left join stored on stored.id = pet_id;
-- Plan of ('{1}', '{new}', array[encode(sha256('body'), 'hex')], '{Rex}', '{1}', '{available}'):
--   Hash Left Join (actual rows=1 loops=1)
--     Hash Cond: ((new.api_key_id = record.api_key_id) AND (new.key = (record.key)::text))
--     Buffers: shared hit=19
--     CTE new
--       ->  Nested Loop Left Join (actual rows=1 loops=1)
--             Buffers: shared hit=5
--             ->  Function Scan on request (actual rows=1 loops=1)
--             ->  Limit (actual rows=0 loops=1)
--                   Buffers: shared hit=5
--                   ->  Index Scan using idempotency_keys_pkey on idempotency_keys record_1 (actual rows=0 loops=1)
--                         Index Cond: ((api_key_id = request.api_key_id) AND ((key)::text = request.key))
--                         Filter: (created_at >= (now() - '24:00:00'::interval))
--                         Buffers: shared hit=5
--     CTE record
--       ->  Insert on idempotency_keys earlier (actual rows=1 loops=1)
--             Conflict Resolution: UPDATE
--             Conflict Arbiter Indexes: idempotency_keys_pkey
--             Conflict Filter: (earlier.created_at < (now() - '24:00:00'::interval))
--             Tuples Inserted: 1
--             Conflicting Tuples: 0
--             Buffers: shared hit=9
--             ->  Subquery Scan on "*SELECT*" (actual rows=1 loops=1)
--                   Buffers: shared hit=1
--                   ->  CTE Scan on new new_1 (actual rows=1 loops=1)
--                         Filter: is_free
--                         Buffers: shared hit=1
--     CTE stored
--       ->  Insert on pets (actual rows=1 loops=1)
--             Buffers: shared hit=5
--             ->  Hash Join (actual rows=1 loops=1)
--                   Hash Cond: ((new_2.api_key_id = record_2.api_key_id) AND (new_2.key = (record_2.key)::text))
--                   ->  CTE Scan on new new_2 (actual rows=1 loops=1)
--                   ->  Hash (actual rows=1 loops=1)
--                         Buckets: 1024  Batches: 1  Memory Usage: 9kB
--                         ->  CTE Scan on record record_2 (actual rows=1 loops=1)
--     ->  CTE Scan on new (actual rows=1 loops=1)
--           Buffers: shared hit=5
--     ->  Hash (actual rows=1 loops=1)
--           Buckets: 1024  Batches: 1  Memory Usage: 9kB
--           Buffers: shared hit=14
--           ->  Hash Left Join (actual rows=1 loops=1)
--                 Hash Cond: (record.pet_id = stored.id)
--                 Buffers: shared hit=14
--                 ->  CTE Scan on record (actual rows=1 loops=1)
--                       Buffers: shared hit=9
--                 ->  Hash (actual rows=1 loops=1)
--                       Buckets: 1024  Batches: 1  Memory Usage: 9kB
--                       Buffers: shared hit=5
--                       ->  CTE Scan on stored (actual rows=1 loops=1)
--                             Buffers: shared hit=5
--     SubPlan 4
--       ->  Index Scan using pets_pkey on pets pets_1 (never executed)
--             Index Cond: (id = new.known_id)
--   Trigger for constraint idempotency_keys_pet_id_fkey on idempotency_keys: calls=1

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
-- Plan of ():
--   Delete on idempotency_keys (actual rows=1000 loops=1)
--     Buffers: shared hit=7020
--     ->  Nested Loop (actual rows=1000 loops=1)
--           Buffers: shared hit=5020
--           ->  HashAggregate (actual rows=1000 loops=1)
--                 Group Key: "ANY_subquery".api_key_id, ("ANY_subquery".key)::text
--                 Batches: 1  Memory Usage: 321kB
--                 Buffers: shared hit=1020
--                 ->  Subquery Scan on "ANY_subquery" (actual rows=1000 loops=1)
--                       Buffers: shared hit=1020
--                       ->  Limit (actual rows=1000 loops=1)
--                             Buffers: shared hit=1020
--                             ->  LockRows (actual rows=1000 loops=1)
--                                   Buffers: shared hit=1020
--                                   ->  Index Scan using idempotency_keys_created_at_idx on idempotency_keys idempotency_keys_1 (actual rows=1000 loops=1)
--                                         Index Cond: (created_at < (now() - '24:00:00'::interval))
--                                         Buffers: shared hit=20
--           ->  Index Scan using idempotency_keys_pkey on idempotency_keys (actual rows=1 loops=1000)
--                 Index Cond: ((api_key_id = "ANY_subquery".api_key_id) AND ((key)::text = ("ANY_subquery".key)::text))
--                 Buffers: shared hit=4000

-- getPet. Prepared as pets-by-id.
SELECT pets.id::text AS "id", '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' AS "json" FROM "pets" "pets" WHERE "pets"."id" = any($1);
-- Plan of ('{500000}'):
--   Index Scan using pets_pkey on pets (actual rows=1 loops=1)
--     Index Cond: (id = ANY ($1))
--     Buffers: shared hit=4

-- listOrders. Prepared as order-pages.
 select wanted.key, page.items
   from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
lateral (
         select string_agg('{"id":' || id || ',"petId":' || pet_id || ',"status":"' || status || '","placedAt":"' || to_char(placed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"}', E'\n' order by id) as items
           from (select *
                   from orders
                  where id >= wanted.start
                  order by id
                  limit wanted.size + 1) as orders
        ) as page;
-- Plan of ('{page}', '{null}', '{500000}', '{20}'):
--   Nested Loop (actual rows=1 loops=1)
--     Buffers: shared hit=4
--     ->  Function Scan on wanted (actual rows=1 loops=1)
--     ->  Aggregate (actual rows=1 loops=1)
--           Buffers: shared hit=4
--           ->  Limit (actual rows=21 loops=1)
--                 Buffers: shared hit=4
--                 ->  Index Scan using orders_pkey on orders (actual rows=21 loops=1)
--                       Index Cond: (id >= wanted.start)
--                       Buffers: shared hit=4

-- With DATABASE_READ_URL, on the primary before each read: how far its log goes. Prepared as primary-position.
select lsn::text, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int,
       (select concat_ws('/', system_identifier, current_database(), to_regclass('pets')::oid)
          from pg_control_system())
  from (select case current_setting('synchronous_commit')
                 when 'off' then pg_current_wal_insert_lsn()
                 else pg_current_wal_flush_lsn()
               end as lsn
         where not pg_is_in_recovery()) as position;
-- Plan of ():
--   Subquery Scan on "position" (actual rows=1 loops=1)
--     InitPlan 1 (returns $0)
--       ->  Function Scan on pg_control_system (actual rows=1 loops=1)
--     ->  Result (actual rows=1 loops=1)
--           One-Time Filter: (NOT pg_is_in_recovery())

-- With DATABASE_READ_URL, on the standby before each read: whether it is a copy, and has replayed as much. Prepared as standby-state.
with recursive look (round, has_replayed) as (
  select 0, pg_last_wal_replay_lsn() >= $1::pg_lsn
       and (select received_tli from pg_stat_wal_receiver) = $2::int
  union all
  select round + 1, pg_last_wal_replay_lsn() >= $1::pg_lsn
       and (select received_tli from pg_stat_wal_receiver) = $2::int
    from look, pg_sleep(round * 0.001)
   where not has_replayed and round < 9
)
select coalesce(bool_or(has_replayed), false),
       case
         when $3::text <> (select concat_ws('/', system_identifier, current_database(), to_regclass('pets')::oid)
          from pg_control_system())
         then 'is not a standby of the server of DATABASE_URL, or the URL names another database or schema.'
         when not pg_has_role('pg_read_all_stats', 'usage')
         then 'does not show this role what it receives. On the primary, run: grant pg_read_all_stats to '
              || quote_ident(current_user) || ';'
         when current_setting('plan_cache_mode') <> 'force_generic_plan'
         then 'ignores settings of the service''s sessions, as poolers do. Name the standby itself.'
       end
  from look;
-- Plan of ('0/0', '1', 'identity'):
--   Aggregate (actual rows=1 loops=1)
--     CTE look
--       ->  Recursive Union (actual rows=1 loops=1)
--             ->  Result (actual rows=1 loops=1)
--                   InitPlan 1 (returns $1)
--                     ->  Function Scan on pg_stat_get_wal_receiver s (actual rows=0 loops=1)
--                           Filter: (pid IS NOT NULL)
--                           Rows Removed by Filter: 1
--             ->  Nested Loop (actual rows=0 loops=1)
--                   InitPlan 2 (returns $2)
--                     ->  Function Scan on pg_stat_get_wal_receiver s_1 (never executed)
--                           Filter: (pid IS NOT NULL)
--                   ->  WorkTable Scan on look look_1 (actual rows=0 loops=1)
--                         Filter: ((NOT has_replayed) AND (round < 9))
--                         Rows Removed by Filter: 1
--                   ->  Function Scan on pg_sleep (never executed)
--     InitPlan 4 (returns $5)
--       ->  Function Scan on pg_control_system (actual rows=1 loops=1)
--     ->  CTE Scan on look (actual rows=1 loops=1)

-- Ends sessions that the service closed because they did not respond. Prepared as end-sessions.
select pg_terminate_backend(pid)
  from pg_stat_activity
 where pid = any($1::int[]) and usename = current_user and query_start < now() - interval '1 second';

-- Readiness: whether the database takes writes.
show transaction_read_only;

-- Readiness: which rights the role lacks.
select privilege || ' on ' || relation as right, n <= $3 as "isNeeded",
            to_regclass(relation) is not null as exists
       from unnest($1::text[], $2::text[]) with ordinality as list (relation, privilege, n)
      where not coalesce(
              case privilege
                when 'usage' then has_sequence_privilege(to_regclass(relation), privilege)
                -- The role may have it for some columns only.
                when 'update' then has_any_column_privilege(to_regclass(relation), privilege)
                else has_table_privilege(to_regclass(relation), privilege)
              end, false)
      order by n;
-- Plan of ('{pets,pets_id_seq}', '{select,usage}', '2'):
--   Function Scan on list (actual rows=0 loops=1)
--     Filter: (NOT COALESCE(CASE privilege WHEN 'usage'::text THEN has_sequence_privilege((to_regclass(relation))::oid, privilege) WHEN 'update'::text THEN has_any_column_privilege((to_regclass(relation))::oid, privilege) ELSE has_table_privilege((to_regclass(relation))::oid, privilege) END, false))
--     Rows Removed by Filter: 2

-- Readiness, and a start: which migrations are applied.
select name, (to_jsonb(migrations) ->> 'applied_at')::timestamptz as "appliedAt",
              to_jsonb(migrations) ->> 'version' as version
         from migrations order by timestamp, id;
-- Plan of ():
--   Sort (actual rows=6 loops=1)
--     Sort Key: "timestamp", id
--     Sort Method: quicksort  Memory: 25kB
--     Buffers: shared hit=1
--     ->  Seq Scan on migrations (actual rows=6 loops=1)
--           Buffers: shared hit=1

-- A start: whether the tables are in another schema than the one that the role uses.
select quote_ident(nspname) as found, quote_ident(current_user) as role,
            current_setting('search_path') as path, to_regclass('pets') is not null as "isVisible",
            has_schema_privilege(pg_namespace.oid, 'usage') as "isUsable"
       from pg_class as pets
       join pg_namespace on pg_namespace.oid = pets.relnamespace
       join pg_class as migrations on migrations.relnamespace = pets.relnamespace
      where pets.relname = 'pets' and migrations.relname = 'migrations'
        and nspname is distinct from current_schema()
        and not exists (select from pg_tables where schemaname = current_schema() and tablename = 'migrations')
        and (has_table_privilege(pets.oid, 'select')
             or quote_ident(nspname) = any (regexp_split_to_array(current_setting('search_path'), ', *')));
-- Plan of ():
--   Result (actual rows=0 loops=1)
--     One-Time Filter: (NOT $0)
--     Buffers: shared hit=5
--     InitPlan 1 (returns $0)
--       ->  Nested Loop (actual rows=1 loops=1)
--             Join Filter: (c.relnamespace = n.oid)
--             Buffers: shared hit=5
--             ->  Index Scan using pg_class_relname_nsp_index on pg_class c (actual rows=1 loops=1)
--                   Index Cond: (relname = 'migrations'::name)
--                   Filter: (relkind = ANY ('{r,p}'::"char"[]))
--                   Buffers: shared hit=3
--             ->  Index Scan using pg_namespace_nspname_index on pg_namespace n (actual rows=1 loops=1)
--                   Index Cond: (nspname = "current_schema"())
--                   Buffers: shared hit=2
--     ->  Nested Loop (never executed)
--           Join Filter: (pg_namespace.oid = migrations.relnamespace)
--           ->  Nested Loop (never executed)
--                 ->  Index Scan using pg_class_relname_nsp_index on pg_class pets (never executed)
--                       Index Cond: (relname = 'pets'::name)
--                 ->  Index Scan using pg_namespace_oid_index on pg_namespace (never executed)
--                       Index Cond: (oid = pets.relnamespace)
--                       Filter: ((nspname IS DISTINCT FROM "current_schema"()) AND (has_table_privilege(pets.oid, 'select'::text) OR (quote_ident((nspname)::text) = ANY (regexp_split_to_array(current_setting('search_path'::text), ', *'::text)))))
--           ->  Index Only Scan using pg_class_relname_nsp_index on pg_class migrations (never executed)
--                 Index Cond: (relname = 'migrations'::name)
--                 Heap Fetches: 0

-- A start: whether the database can hold the tables.
select current_setting('server_encoding') as encoding, current_schema() as schema,
            current_setting('search_path') as path;
-- Plan of ():
--   Result (actual rows=1 loops=1)

-- A command, and a start before it serves: dates that the driver reads.
set datestyle = 'ISO';

-- A start: whether the database is Citus, for which other statements replace some of these. Then the start also reads the number of the node from that table.
select to_regclass('pg_dist_local_group') is not null as is_citus;
-- Plan of ():
--   Result (actual rows=1 loops=1)

-- A start: whether sessions have their settings.
select name, setting, quote_ident(current_user) as role from pg_settings where name = any($1);
-- Plan of ('{jit,statement_timeout}'):
--   Function Scan on pg_show_all_settings a (actual rows=2 loops=1)
--     Filter: (name = ANY ($1))
--     Rows Removed by Filter: 352

-- A start: whether a pooler shares sessions among connections.
select pg_backend_pid() as pid;
-- Plan of ():
--   Result (actual rows=1 loops=1)
