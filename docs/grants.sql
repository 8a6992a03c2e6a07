-- The rights of the service, the keys' role and readers on tables. As the migrator, run this after each upgrade: a
-- table that was created again has lost its rights. You can run it again at any time.
-- In 1.0.0, the commands for keys used the role animals.
begin;
revoke insert, update on api_keys from animals;
grant select, insert on pets to animals;
grant usage, select on sequence pets_id_seq to animals;
grant select, update (last_used_at) on api_keys to animals;
grant select, insert, update, delete on idempotency_keys to animals;
grant select on migrations to animals;
grant select on sequence migrations_id_seq to animals;
grant select on sequence api_keys_id_seq to animals;
grant select on sequence orders_id_seq to animals;
grant select on orders to animals;

grant select on migrations to animals_keys;
grant select, insert, update (revoked_at) on api_keys to animals_keys;

grant select on migrations, pets, orders to animals_reader;
grant select (id, name, created_at, expires_at, revoked_at, last_used_at) on api_keys to animals_reader;
commit;
