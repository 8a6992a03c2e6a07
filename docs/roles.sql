-- The roles of the animal store, each with no more rights than it needs, and the database. Run it once on a server, as a
-- superuser, with psql 15 or later. The passwords come from the environment.
\set ON_ERROR_STOP on
\getenv migrator MIGRATOR_PASSWORD
\getenv service SERVICE_PASSWORD
\getenv reader READER_PASSWORD

-- Owns the database and its tables. Nobody can log in as it. It sees since when the sessions that a migration waits for
-- run their queries.
create role animals_owner nologin in role pg_read_all_stats;

-- Applies and reverts migrations, backs up and restores.
create role animals_migrator login password :'migrator' in role animals_owner;

-- The service. grants.sql has its rights on tables.
create role animals login password :'service';

-- People and reports: reads animals, orders and the keys' names and dates. It cannot read the keys' hashes.
create role animals_reader login password :'reader';
alter role animals_reader set default_transaction_read_only = on;

create database animals owner animals_owner encoding 'UTF8' template template0;

-- Whatever a migration makes belongs to the owner, whoever applies it.
alter role animals_migrator in database animals set role = animals_owner;

-- By default, any role of the server may connect, make temporary tables and, before PostgreSQL 15, make tables.
revoke all on database animals from public;
grant connect on database animals to animals_migrator, animals, animals_reader;

\connect animals
revoke all on schema public from public;
grant usage, create on schema public to animals_owner;
grant usage on schema public to animals, animals_reader;
