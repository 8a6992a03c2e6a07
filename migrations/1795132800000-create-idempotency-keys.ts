import type { Migration, SqlSession } from './migration.js';

/**
 * The pets that were created with each `Idempotency-Key`, for 24 hours. The index on created_at finds older rows.
 */
export class CreateIdempotencyKeys1795132800000 implements Migration {
  name = 'CreateIdempotencyKeys1795132800000';
  purpose = 'Creates idempotency_keys, which makes a createPet that is sent again create nothing.';
  locks = {
    up: { api_keys: 'SHARE ROW EXCLUSIVE', pets: 'SHARE ROW EXCLUSIVE' },
    down: {
      idempotency_keys: 'ACCESS EXCLUSIVE',
      api_keys: 'ACCESS EXCLUSIVE',
      pets: 'ACCESS EXCLUSIVE',
    },
  } as const;
  drops = ['idempotency_keys'];

  async up(session: SqlSession): Promise<void> {
    await session.query(`
      create table idempotency_keys (
        api_key_id bigint not null,
        key character varying(255) not null,
        body_hash bytea not null,
        pet_id bigint not null,
        created_at timestamp with time zone not null default now(),
        constraint idempotency_keys_pkey primary key (api_key_id, key),
        constraint idempotency_keys_api_key_id_fkey foreign key (api_key_id) references api_keys (id) on delete cascade,
        constraint idempotency_keys_pet_id_fkey foreign key (pet_id) references pets (id) on delete cascade
      )
    `);
    await session.query(`create index idempotency_keys_pet_id_idx on idempotency_keys (pet_id)`);
    await session.query(
      `create index idempotency_keys_created_at_idx on idempotency_keys (created_at)`,
    );
  }

  async down(session: SqlSession): Promise<void> {
    await session.query(`drop table idempotency_keys`);
  }
}
