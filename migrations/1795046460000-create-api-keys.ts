import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The API keys, each as the SHA-256 of its text: nobody who reads this table can use one. */
export class CreateApiKeys1795046460000 implements MigrationInterface {
  name = 'CreateApiKeys1795046460000';

  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query(`
      create table api_keys (
        id bigint generated always as identity,
        name character varying(100) not null,
        hash bytea not null,
        created_at timestamp with time zone not null default now(),
        expires_at timestamp with time zone,
        revoked_at timestamp with time zone,
        last_used_at timestamp with time zone,
        constraint api_keys_pkey primary key (id),
        constraint api_keys_hash_key unique (hash),
        constraint api_keys_hash_check check (octet_length(hash) = 32)
      )
    `);
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query(`drop table api_keys`);
  }
}
