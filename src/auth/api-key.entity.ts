import { Check, Column, Entity, PrimaryGeneratedColumn, Unique, VirtualColumn } from 'typeorm';

/** An API key as stored: only its SHA-256, so that a reader of the table cannot use the key. */
@Entity('api_keys')
@Unique('api_keys_hash_key', ['hash'])
@Check('api_keys_hash_check', 'octet_length(hash) = 32')
export class ApiKey {
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'api_keys_pkey',
  })
  id!: string;

  /** Its name for people: 1 to 100 characters. */
  @Column({ type: 'character varying', length: 100 })
  name!: string;

  @Column({ type: 'bytea' })
  hash!: Buffer;

  @Column({ name: 'created_at', type: 'timestamp with time zone', default: () => 'now()' })
  createdAt!: Date;

  @Column({ name: 'expires_at', type: 'timestamp with time zone', nullable: true })
  expiresAt!: Date | null;

  @Column({ name: 'revoked_at', type: 'timestamp with time zone', nullable: true })
  revokedAt!: Date | null;

  /** To the minute. */
  @Column({ name: 'last_used_at', type: 'timestamp with time zone', nullable: true })
  lastUsedAt!: Date | null;

  @VirtualColumn({
    type: 'boolean',
    query: (key) => `select coalesce(${key}.expires_at <= now(), false)`,
  })
  isExpired!: boolean;
}
