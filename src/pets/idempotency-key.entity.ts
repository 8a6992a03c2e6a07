import { Column, Entity, ForeignKey, Index, PrimaryColumn } from 'typeorm';
import { Pet } from './pet.entity.js';

const primaryKeyConstraintName = 'idempotency_keys_pkey';

/**
 * The record of an `Idempotency-Key`: which pet was created with it. It is kept for 24 hours, also if the API key is
 * deleted. `api_key_id` is not a foreign key, because its check would lock the row of the API key: creates of all keys
 * in a batch would wait for a transaction that holds one row.
 */
@Entity('idempotency_keys')
@Index('idempotency_keys_pet_id_idx', ['petId'])
@Index('idempotency_keys_created_at_idx', ['createdAt'])
export class IdempotencyKey {
  @PrimaryColumn({ name: 'api_key_id', type: 'bigint', primaryKeyConstraintName })
  apiKeyId!: string;

  @PrimaryColumn({ type: 'character varying', length: 255, primaryKeyConstraintName })
  key!: string;

  /** SHA-256 of the pet's content (`contentOf` in pets.sql.ts): 32 bytes. */
  @Column({ name: 'body_hash', type: 'bytea' })
  bodyHash!: Buffer;

  @Column({ name: 'pet_id', type: 'bigint' })
  @ForeignKey(() => Pet, { name: 'idempotency_keys_pet_id_fkey', onDelete: 'CASCADE' })
  petId!: string;

  @Column({ name: 'created_at', type: 'timestamp with time zone', default: () => 'now()' })
  createdAt!: Date;
}
