import type { Migration, SqlSession } from './migration.js';

/** The API keys, each as the SHA-256 of its text, so that a reader of the table cannot use them. */
export class CreateApiKeys1795046460000 implements Migration {
  name = 'CreateApiKeys1795046460000';
  purpose = 'Creates api_keys, the API keys as hashes.';
  locks = { up: {}, down: { api_keys: 'ACCESS EXCLUSIVE' } } as const;
  drops = ['api_keys'];

  async up(session: SqlSession): Promise<void> {
    await session.query(`
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

  async down(session: SqlSession): Promise<void> {
    await session.query(`drop table api_keys`);
  }
}
