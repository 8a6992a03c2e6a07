-- The rights of the service, of the keys' role and of readers on the tables. Run it after each upgrade, as the migrator: a
-- table that was made again has lost its rights. It may be run again at any time.
grant select on migrations, orders to animals;
grant select, insert on pets to animals;
grant select, update (last_used_at) on api_keys to animals;
grant select, insert, update, delete on idempotency_keys to animals;
grant usage on sequence pets_id_seq to animals;

grant select, insert, update (revoked_at) on api_keys to animals_keys;

grant select on migrations, pets, orders to animals_reader;
grant select (id, name, created_at, expires_at, revoked_at, last_used_at) on api_keys to animals_reader;
