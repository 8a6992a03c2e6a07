-- The roles of the animal store, each with no more rights than it needs, and the database. Run it as a superuser, with
-- psql 15 or later, or as the administrator of a managed service, a role with createrole and createdb: it then says what
-- it could not do. If it failed, run it again: what exists stays as it is. The roles have no passwords: set them with
-- \password in psql, which sends only their hashes. A password in `create role` would be in PostgreSQL's log.
\set ON_ERROR_STOP on
select rolsuper as is_superuser from pg_roles where rolname = current_user
\gset

begin;
select format('create role %s %s', name, attributes)
  from (values
    -- Owns the database and its tables. Nobody can log in as it.
    ('animals_owner', 'nologin'),
    -- Applies and reverts migrations, backs up and restores.
    ('animals_migrator', 'login'),
    -- The service. It and the migrator have no connection limit: those of the other roles leave room for them.
    ('animals', 'login'),
    -- Whoever creates and revokes API keys.
    ('animals_keys', 'login connection limit 5'),
    -- People and reports: reads pets, orders and the keys' names and dates. It cannot read the keys' hashes.
    ('animals_reader', 'login connection limit 10')
  ) as roles (name, attributes)
 where not exists (select from pg_roles where rolname = name)
\gexec

-- With this, a migration can print how long the queries that block it have run.
do $$ begin
  grant pg_read_all_stats to animals_owner;
exception when insufficient_privilege then
  raise warning 'Not done, because only a role with admin option on pg_read_all_stats may: a migration that waits cannot print what blocks it.';
end $$;
grant animals_owner to animals_migrator;
\if :is_superuser
\else
-- Others create databases only for roles whose members they are.
grant animals_owner to current_user;
\endif
alter role animals_reader set default_transaction_read_only = on;
commit;

select $$create database animals owner animals_owner encoding 'UTF8' template template0$$
 where not exists (select from pg_database where datname = 'animals')
\gexec

do $$ begin
  if not exists (select from pg_database where datname = 'animals' and datdba = 'animals_owner'::regrole) then
    raise 'the database animals belongs to another role'
      using hint = 'If it is meant for the animal store: alter database animals owner to animals_owner;';
  end if;
end $$;

-- What a migration creates belongs to the owner, whoever applies it.
alter role animals_migrator in database animals set role = animals_owner;

-- By default, any role of the server may connect, make temporary tables and, before PostgreSQL 15, make tables.
revoke all on database animals from public;
grant connect on database animals to animals_migrator, animals, animals_keys, animals_reader;

\connect animals
set citus.enable_ddl_propagation = off; -- Workers of Citus refuse what they would have to pass on.
revoke all on schema public from public;
\if :is_superuser
-- By default, any role may fill the disk with large objects, of which the service has none.
revoke execute on function lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea), lo_put(oid, bigint, bytea),
  lowrite(integer, bytea), lo_truncate(integer, integer), lo_truncate64(integer, bigint) from public;
-- By default, any role may take advisory locks until the server has no memory for locks, and nobody can log in to it.
-- First the grants: a version that serves meanwhile needs the first function for each Idempotency-Key.
grant execute on function pg_try_advisory_xact_lock(integer, integer) to animals, animals_owner; -- who may serve too
grant execute on function pg_try_advisory_lock(bigint), pg_try_advisory_xact_lock(bigint) to animals_owner;
select format('revoke execute on function %s from public', oid::regprocedure)
  from pg_proc
 where pronamespace = 'pg_catalog'::regnamespace and proname ~ '^pg_(try_)?advisory_(xact_)?lock'
\gexec
\else
\warn 'Not done, because only a superuser may: each role of this database can take all memory for locks, so that nobody can'
\warn 'log in to the server, and fill the disk with large objects. Before PostgreSQL 15, each can also create tables.'
\endif
grant usage, create on schema public to animals_owner;
grant usage on schema public to animals, animals_keys, animals_reader;
