import { Check, Column, Entity, PrimaryGeneratedColumn, Unique } from 'typeorm';

/** An API key, as the table `api_keys` holds it. Its secret is nowhere. */
@Entity('api_keys')
@Unique('api_keys_hash_key', ['hash'])
@Check('api_keys_hash_check', `octet_length(hash) = 32`)
export class ApiKey {
  /** An int64 in decimal. */
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'api_keys_pkey',
  })
  id!: string;

  /** What a person calls it: 1 to 100 characters. */
  @Column('character varying', { length: 100 })
  name!: string;

  /** SHA-256 of the key's text, 32 bytes. */
  @Column('bytea')
  hash!: Buffer;

  @Column('timestamp with time zone', { name: 'created_at', default: () => 'now()' })
  createdAt!: Date;

  /** From this instant on it is no longer valid. */
  @Column('timestamp with time zone', { name: 'expires_at', nullable: true })
  expiresAt!: Date | null;

  /** Once set, it is no longer valid. */
  @Column('timestamp with time zone', { name: 'revoked_at', nullable: true })
  revokedAt!: Date | null;

  /** To the minute. */
  @Column('timestamp with time zone', { name: 'last_used_at', nullable: true })
  lastUsedAt!: Date | null;
}
