/**
 * What each migration makes of the tables, and drops of them, as PostgreSQL's catalog has it; some only on Citus.
 * `animal-store check` and readiness compare the tables with it. Made by npm run sql-files from the migrations.
 */
export const TABLES = `
CreatePets1795046400000
+ migrations | table | logged
+ pets | table | logged
+ migrations."timestamp" | column | bigint
+ migrations.id | column | integer
+ migrations.name | column | character varying
+ pets.category_id | column | bigint
+ pets.id | column | bigint
+ pets.name | column | character varying(255)
+ pets.status | column | text
+ migrations."timestamp" | not null
+ migrations.id | not null
+ migrations.name | not null
+ pets.category_id | not null
+ pets.id | not null
+ pets.name | not null
+ pets.status | not null
+ migrations.id | default | nextval('migrations_id_seq'::regclass)
+ pets.status | default | 'available'::text
+ pets.id | identity | by default
+ pets | check | CHECK (((name)::text <> ''::text))
+ pets | check | CHECK ((status = ANY (ARRAY['available'::text, 'pending'::text, 'sold'::text])))
+ migrations | key | PRIMARY KEY (id)
+ pets | key | PRIMARY KEY (id)
+ pets | index | btree (status, id)
CreateApiKeys1795046460000
+ api_keys | table | logged
+ api_keys.created_at | column | timestamp with time zone
+ api_keys.expires_at | column | timestamp with time zone
+ api_keys.hash | column | bytea
+ api_keys.id | column | bigint
+ api_keys.last_used_at | column | timestamp with time zone
+ api_keys.name | column | character varying(100)
+ api_keys.revoked_at | column | timestamp with time zone
+ api_keys.created_at | not null
+ api_keys.hash | not null
+ api_keys.id | not null
+ api_keys.name | not null
+ api_keys.created_at | default | now()
+ api_keys.id | identity | always
+ api_keys | check | CHECK ((octet_length(hash) = 32))
+ api_keys | key | PRIMARY KEY (id)
+ api_keys | key | UNIQUE (hash)
CreateIdempotencyKeys1795132800000
+ idempotency_keys | table | logged
+ idempotency_keys.api_key_id | column | bigint
+ idempotency_keys.body_hash | column | bytea
+ idempotency_keys.created_at | column | timestamp with time zone
+ idempotency_keys.key | column | character varying(255)
+ idempotency_keys.pet_id | column | bigint
+ idempotency_keys.api_key_id | not null
+ idempotency_keys.body_hash | not null
+ idempotency_keys.created_at | not null
+ idempotency_keys.key | not null
+ idempotency_keys.pet_id | not null
+ idempotency_keys.created_at | default | now()
+ idempotency_keys | key | PRIMARY KEY (api_key_id, key)
+ idempotency_keys | index | btree (created_at)
+ idempotency_keys | index | btree (pet_id)
+ idempotency_keys | foreign key | FOREIGN KEY (api_key_id) REFERENCES api_keys(id) ON DELETE CASCADE
+ idempotency_keys | foreign key | FOREIGN KEY (pet_id) REFERENCES pets(id) ON DELETE CASCADE
CreateOrders1795222800000
+ orders | table | logged
+ orders.id | column | bigint
+ orders.pet_id | column | bigint
+ orders.placed_at | column | timestamp with time zone
+ orders.status | column | text
+ orders.id | not null
+ orders.pet_id | not null
+ orders.placed_at | not null
+ orders.status | not null
+ orders.placed_at | default | now()
+ orders.status | default | 'placed'::text
+ orders.id | identity | always
+ orders | check | CHECK (((placed_at >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (placed_at < '10000-01-01 00:00:00+00'::timestamp with time zone)))
+ orders | check | CHECK ((status = ANY (ARRAY['placed'::text, 'approved'::text, 'delivered'::text])))
+ orders | key | PRIMARY KEY (id)
+ orders | index | btree (pet_id)
+ orders | foreign key | FOREIGN KEY (pet_id) REFERENCES pets(id) ON DELETE RESTRICT
DistributeTables1795226400000 on citus
- idempotency_keys | foreign key | FOREIGN KEY (api_key_id) REFERENCES api_keys(id) ON DELETE CASCADE
- idempotency_keys | foreign key | FOREIGN KEY (pet_id) REFERENCES pets(id) ON DELETE CASCADE
- orders | foreign key | FOREIGN KEY (pet_id) REFERENCES pets(id) ON DELETE RESTRICT
DropApiKeyOfIdempotencyKeys1795312800000
- idempotency_keys | foreign key | FOREIGN KEY (api_key_id) REFERENCES api_keys(id) ON DELETE CASCADE
`;
