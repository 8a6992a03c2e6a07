import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What was created under which `Idempotency-Key`, for 24 hours. The index finds what is older. */
export class CreateIdempotencyKeys1795132800000 implements MigrationInterface {
  name = 'CreateIdempotencyKeys1795132800000';

  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query(`
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
    await queryRunner.query(
      `create index idempotency_keys_pet_id_idx on idempotency_keys (pet_id)`,
    );
    await queryRunner.query(
      `create index idempotency_keys_created_at_idx on idempotency_keys (created_at)`,
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query(`drop table idempotency_keys`);
  }
}
