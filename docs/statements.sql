-- Every statement that animal-store serve sends, except those of TypeORM when it connects. Made by npm run
-- sql-files. Tests check that they are current, and that their plans use the indexes.

-- listPets: pages. Prepared as pets-pages.
select wanted.position::int, page.items
    from unnest($1::bigint[], $2::int[])
         with ordinality as wanted (start, size, position),
 lateral (
          select string_agg('{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}', E'\n' order by id) as items
            from (select *
                    from pets
                   where id >= wanted.start
                   order by id
                   limit wanted.size) as pets
         ) as page;

-- listPets with status: pages. Prepared as pets-pages-by-status.
select wanted.position::int, page.items
    from unnest($1::bigint[], $2::int[], $3::text[])
         with ordinality as wanted (start, size, status, position),
 lateral (
          select string_agg('{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}', E'\n' order by status, id) as items
            from (select *
                    from pets
                   where (status, id) >= (wanted.status, wanted.start) and (status, id) <= (wanted.status, 9223372036854775807)
                   order by status, id
                   limit wanted.size) as pets
         ) as page;

-- listOrders: pages. Prepared as orders-pages.
select wanted.position::int, page.items
    from unnest($1::bigint[], $2::int[])
         with ordinality as wanted (start, size, position),
 lateral (
          select string_agg('{"id":' || id || ',"petId":' || pet_id || ',"status":"' || status || '","placedAt":"' || to_char(placed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"}', E'\n' order by id) as items
            from (select *
                    from orders
                   where id >= wanted.start
                   order by id
                   limit wanted.size) as orders
         ) as page;

-- The API keys of the waiting requests, and which are valid. Prepared as keys-by-hash.
select id, encode(hash, 'hex'), (extract(epoch from expires_at) - extract(epoch from now())) * 1000,
         revoked_at is null and (expires_at is null or expires_at > now())
    from api_keys
   where hash = any (array(select decode(sent, 'hex') from unnest($1::text[]) as sent));

-- For the metrics: which API keys in use expire soon. Prepared as expiring-keys.
select id, extract(epoch from expires_at)
    from api_keys
   where revoked_at is null and expires_at between now() - interval '1 day' and now() + interval '14 days'
     and expires_at > created_at + interval '14 days'
     and last_used_at > case when expires_at < now() then expires_at - interval '1 hour' else now() - interval '30 days' end;

-- Notes which API keys were used, to the minute. Prepared as note-key-use.
update api_keys
     set last_used_at = now()
   where id = any($1::bigint[])
     and (last_used_at is null or last_used_at < now() - interval '1 minute');

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

-- createPet with an Idempotency-Key. Prepared as insert-pets-once.
with new as materialized (
    select request.*, known.*,
           case when known_id is null
             then pg_try_advisory_xact_lock(hashint8(api_key_id), hashtext(key))
           end as is_free,
           case when known_id is not null and current_setting('synchronous_standby_names') <> ''
             then pg_logical_emit_message(true, 'animal-store', 'awaits earlier commits')
           end as awaited
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
         coalesce(stored.json, (select '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' from pets where id = new.known_id)),
         coalesce(known_hash, body_hash), known_id is not null
    from new
    left join record using (api_key_id, key)
    left join stored on stored.id = pet_id;

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

-- getPet. Prepared as pets-by-id.
select id::text, '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' from pets where id = any($1::bigint[]);

-- With DATABASE_READ_URL, on the primary before each read: how far its log goes. Prepared as primary-position.
select lsn::text, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int,
         (select concat_ws('/', system_identifier, current_database(), to_regclass('pets')::oid)
            from pg_control_system())
    from (select case
                   when pg_is_in_recovery() then null
                   when current_setting('synchronous_commit') = 'off' then pg_current_wal_insert_lsn()
                   else pg_current_wal_flush_lsn()
                 end as lsn) as position;

-- With DATABASE_READ_URL, on the standby before each read: whether it is a standby that has replayed this. Prepared as standby-state.
select exists (select
                   from generate_series(0, 8) as round, pg_sleep(round * 0.001), pg_stat_wal_receiver
                  where received_tli = $2::int and pg_last_wal_replay_lsn() >= $1::pg_lsn),
         case
           when $3::text <> (select concat_ws('/', system_identifier, current_database(), to_regclass('pets')::oid)
            from pg_control_system())
           then 'is not a standby of the server of DATABASE_URL, or the URL names another database or schema.'
           when not pg_has_role('pg_read_all_stats', 'usage')
           then 'does not show this role what it receives. On the primary, run: grant pg_read_all_stats to '
                || quote_ident(current_user) || ';'
         end;

-- Ends sessions that the service closed because they did not respond. Prepared as end-sessions.
select case set_config('role', 'none', true)
           when 'none'
           then (select pg_terminate_backend(pid)
                   from pg_stat_activity
                  where pid = closed and usename = session_user
                    and backend_start < now() - age * interval '1 millisecond')
         end
    from unnest($1::int[], $2::float8[]) as given (closed, age);

-- Readiness: which rights the role lacks.
select case when current_user = session_user then 'The database role'
                 else format('The role %I, which the setting "role" of %I names,', current_user, session_user) end as role,
            one as right, one || case when row_security_active(to_regclass(relation))
              then format(' (row-level security could hide rows; run alter role %I bypassrls, or alter table %s disable row level security)',
                          current_user, relation)
              else '' end as message
       from unnest($1::text[]) as one,
            lateral (select split_part(one, ' on ', 1), substring(one from ' on (\w+)$'), substring(one from ' on function (.+)'))
              as parts (privilege, relation, routine)
      where not coalesce(
              case privilege
                when 'execute' then has_function_privilege(routine, privilege)
                when 'usage' then has_sequence_privilege(to_regclass(relation), privilege)
                -- The role may have it for some columns only.
                when 'update' then has_any_column_privilege(to_regclass(relation), privilege)
                else has_table_privilege(to_regclass(relation), privilege)
                     and not (privilege = 'select' and row_security_active(to_regclass(relation)))
              end, false)
        and (routine is not null or to_regclass(relation) is not null or not $2);

-- Readiness, and a start: which migrations are applied.
select name, timestamp from migrations order by id;

-- Readiness, and a start: whether the tables are in another schema than the one that the role uses.
select to_regclass('pets') is not null as "isVisible",
            format('The tables are in the schema %1$I, which is not first in the search_path of the role %2$I, or on which it lacks usage: ' ||
                   'grant usage on schema %1$I to %2$I; alter role %3$I set search_path = %1$I;',
                   nspname, current_user, session_user) as message
       from pg_class as pets
       join pg_namespace on pg_namespace.oid = pets.relnamespace
       join pg_tables as migrations on migrations.schemaname = nspname and migrations.tablename = 'migrations'
      where pets.relname = 'pets' and has_table_privilege(pets.oid, 'select')
        and nspname is distinct from current_schema()
        and not exists (select from pg_tables where schemaname = current_schema() and tablename = 'migrations');

-- A start: whether the database can hold the tables.
select case
           when current_setting('server_version_num')::int < 140000
           then format('The server of DATABASE_URL is PostgreSQL %s; the service needs 14 or later.', current_setting('server_version'))
           when current_setting('server_encoding') <> 'UTF8'
           then format('The database of DATABASE_URL has the encoding %s, and must have UTF8: ' ||
                       'create database … encoding ''UTF8'' template template0.', current_setting('server_encoding'))
           when current_schema() is null
           then format('The role of DATABASE_URL may use no schema of its search_path, which is %s: ' ||
                       'grant usage on schema public to it, or set its search_path.', current_setting('search_path'))
         end as fault;

-- A start: where it is, for its messages.
select current_schema() as schema;

-- Sessions of commands: the format of dates that the driver reads, no rows hidden, and a limit on waits for locks alone.
select set_config('datestyle', 'ISO', false),
       (select count(set_config(name, value, false))
          from (values ('row_security', 'off'), ('statement_timeout', '0'), ('lock_timeout', $2)) as setting (name, value)
         where pg_backend_pid() = $1::int);

-- A start: whether this is Citus. If so, it also reads groupid from pg_dist_local_group.
select to_regclass('pg_dist_local_group') is not null as is_citus;

-- A start: whether sessions have their settings.
select name, setting, quote_ident(session_user) as role from pg_settings where name = any($1);

-- Readiness, if the process found no extension when it started: whether Citus distributes the pets since then.
select exists (select from pg_trigger
                  where tgrelid = to_regclass('pets') and tgfoid = to_regproc('citus_truncate_trigger')) as "isDistributed";

-- Readiness: whether the server accepts writes, and its time.
select case
           when pg_is_in_recovery() then 'The database is read-only.'
           when current_setting('transaction_read_only') = 'on'
           then 'The database is read-only: default_transaction_read_only is on.'
           when max(greatest(age(datfrozenxid), mxid_age(datminmxid))) >= 2144483647
           then 'The database has no transaction ids left for writes.'
         end as reason,
         extract(epoch from clock_timestamp()) as now
    from pg_database;

-- A start, and readiness: what the tables consist of.
with settings as materialized (
    select set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), set_config('lock_timeout', $2, true),
           set_config('quote_all_identifiers', 'off', true)
  ), tables as materialized (
    select oid, relname::text as name, relkind, relpersistence
      from settings, pg_class
     where oid in (select to_regclass(name) from unnest($1::text[]) as name)
  ), indexes as (
    select name, pg_index.*,
           case when not indisvalid and not exists (
                  select from pg_stat_progress_create_index join pg_locks using (pid)
                   where relation = indrelid and mode = 'ShareUpdateExclusiveLock')
                then format('reindex index concurrently %s', indexrelid::regclass)
           end as reindex
      from tables join pg_index on indrelid = tables.oid
  ), parts as (
    select name as object, parts.*
      from tables,
           lateral (values
             ('table', case when relkind in ('r', 'p') then
                              case relpersistence when 'p' then 'logged' else 'unlogged' end end, null),
             ('partitioned', pg_get_partkeydef(oid), null)) as parts (kind, definition, repair)
    union all
    select format('%s.%I', name, attname), parts.*
      from tables
      join pg_attribute on attrelid = tables.oid and attnum > 0 and not attisdropped
      join pg_type on pg_type.oid = atttypid
      left join pg_attrdef on adrelid = attrelid and adnum = attnum,
           lateral (select format_type(atttypid, atttypmod) as type, pg_get_expr(adbin, adrelid) as value,
                           nullif(attcollation, typcollation)::regcollation as comparison) as shown,
           lateral (values
             ('column', type || coalesce(' collate ' || comparison, ''), null),
             ('not null', case when attnotnull and not exists (select from pg_constraint
                where conrelid = attrelid and conkey = array[attnum] and contype = 'n' and not convalidated) then '' end, null),
             ('identity', case attidentity when 'a' then 'always' when 'd' then 'by default' end, null),
             ('default', case when attgenerated = '' then value end, null),
             ('generated', case when attgenerated <> '' then value end,
               format('alter table %I alter column %I drop expression', name, attname)),
             ('required', case when attnotnull and not atthasdef and attidentity = '' then '' end,
               format('alter table %I alter column %I drop not null', name, attname))) as parts
    union all
    select tables.name, case contype when 'c' then 'check' when 'f' then 'foreign key' when 'x' then 'exclusion' else 'key' end,
           valid,
           case when shown like '% NOT VALID' then change || format('validate constraint %I', conname)
                when shown <> valid then change || format('drop constraint %I, add %s', conname, valid)
                when exists (select from pg_trigger where tgconstraint = pg_constraint.oid and tgenabled = 'D')
                then change || 'enable trigger all'
                else reindex
           end
      from tables
      join pg_constraint on conrelid = tables.oid and contype in ('c', 'f', 'p', 'u', 'x')
      left join indexes on indexrelid = conindid and contype in ('p', 'u'),
           lateral (select pg_get_constraintdef(pg_constraint.oid) as shown, format('alter table %I ', tables.name) as change) as texts,
           lateral regexp_replace(shown, '( NOT VALID| NOT ENFORCED| DEFERRABLE| INITIALLY DEFERRED)+$', '') as valid
    union all
    select name, case when indisunique then 'unique index' else 'index' end,
           substring(pg_get_indexdef(indexrelid) from ' USING (.*)'), reindex
      from indexes
     where not exists (select from pg_constraint where conindid = indexrelid and conrelid = indrelid and contype <> 'f')
    union all
    select name, 'trigger', tgname, null
      from tables join pg_trigger on tgrelid = tables.oid and not tgisinternal and tgenabled <> 'D'
    union all
    select name, 'rule', rulename,
           case when ev_type = '3' or (ev_type = '2' and name = 'idempotency_keys')
                then format('drop rule %I on %I', rulename, name) end
      from tables join pg_rewrite on ev_class = tables.oid and rulename <> '_RETURN' and ev_enabled <> 'D'
    union all
    select name, 'inherited by', inhrelid::regclass::text, null
      from tables join pg_inherits on inhparent = tables.oid and relkind <> 'p'
    union all
    select '', 'extension', extname, null from pg_extension where extname = 'citus'
  )
  select * from parts where definition is not null;

-- First in each serving session, and when it proves that it responds: changes its settings, unless a pooler has it.
select pg_backend_pid() as pid, current_setting('transaction_read_only') = 'on' as "isReadOnly",
       pg_is_in_recovery() as "isStandby",
       (select count(set_config(name, value, false))
          from (select * from unnest($2::text[], $3::text[]) union all
                select 'search_path', relnamespace::regnamespace || ', ' || current_setting('search_path')
                  from pg_class
                 where oid = to_regclass('migrations')
                   and not starts_with(current_setting('search_path'), relnamespace::regnamespace || ', ')) as setting (name, value)
         where pg_backend_pid() = $1::int) as changed;

-- On Citus, these replace the statements that read pages and create pets, and those of Idempotency-Keys. They are not
-- prepared. Gets, and creates that repeat a known key, use pets-by-id, which is prepared there too.

-- listPets: pages.
select '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' from pets where id >= $1::bigint order by id limit $2::int;

-- listPets with status: pages.
select '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' from pets where (status, id) >= ($3::text, $1::bigint) and (status, id) <= ($3::text, 9223372036854775807) order by status, id limit $2::int;

-- listOrders: pages.
select '{"id":' || id || ',"petId":' || pet_id || ',"status":"' || status || '","placedAt":"' || to_char(placed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"}' from orders where id >= $1::bigint order by id limit $2::int;

-- createPet: as many rows as there are new pets.
insert into pets (id, name, category_id, status) values ($1, $2, $3, $4);

-- createPet: the ids and the JSON of new pets.
with new as materialized (
    select nextval('pets_id_seq') as id, request.*
      from unnest($1::character varying[], $2::bigint[], $3::text[])
           with ordinality as request (name, category_id, status, position))
select id, '{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id || ',"status":"' || status || '"}' from new order by position;

-- createPet with an Idempotency-Key: the time 24 hours ago.
select (now() - interval '24 hours')::text;

-- createPet with an Idempotency-Key: its record, if it has one.
select encode(body_hash, 'hex'), pet_id from idempotency_keys
 where api_key_id = $1 and key = $2 and created_at >= $3::timestamptz;

-- createPet with an Idempotency-Key: its transaction, first.
begin;

-- createPet with an Idempotency-Key, in the same transaction, before the insert: its lock.
select pg_try_advisory_xact_lock(hashint8($1), hashtext($2));

-- createPet with an Idempotency-Key, in the same transaction, after the insert: how long to wait for the record.
set local lock_timeout = '500ms';

-- createPet with an Idempotency-Key, in the same transaction: its record.
insert into idempotency_keys as earlier (api_key_id, key, body_hash, pet_id)
values ($1, $2, decode($3, 'hex'), $4)
    on conflict (api_key_id, key) do update
   set body_hash = excluded.body_hash, pet_id = excluded.pet_id, created_at = excluded.created_at
 where earlier.created_at < $5::timestamptz
returning key;

-- createPet with an Idempotency-Key: its end. If another transaction has its lock or its record, rollback.
commit;

-- Readiness: whether each worker with pets can be asked.
select id from pets limit 1;

-- Deletes Idempotency-Keys older than 24 hours, every ten minutes.
delete from idempotency_keys
 where (api_key_id, key) in (
       select api_key_id, key from idempotency_keys
        where created_at < $1::timestamptz order by created_at limit 1000)
   and created_at < $1::timestamptz
returning key;
