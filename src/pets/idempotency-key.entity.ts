import { Column, Entity, Index, JoinColumn, ManyToOne, PrimaryColumn } from 'typeorm';
import { ApiKey } from '../auth/api-key.entity.js';
import { Pet } from './pet.entity.js';

/** The animal that was created under an `Idempotency-Key`, as the table `idempotency_keys` holds it. */
@Entity('idempotency_keys')
@Index('idempotency_keys_pet_id_idx', ['petId'])
@Index('idempotency_keys_created_at_idx', ['createdAt'])
export class IdempotencyKey {
  /** The API key that the key is scoped to. */
  @PrimaryColumn('bigint', {
    name: 'api_key_id',
    primaryKeyConstraintName: 'idempotency_keys_pkey',
  })
  apiKeyId!: string;

  @PrimaryColumn('character varying', {
    length: 255,
    primaryKeyConstraintName: 'idempotency_keys_pkey',
  })
  key!: string;

  /** SHA-256 of the NewPet, 32 bytes. */
  @Column('bytea', { name: 'body_hash' })
  bodyHash!: Buffer;

  @Column('bigint', { name: 'pet_id' })
  petId!: string;

  @Column('timestamp with time zone', { name: 'created_at', default: () => 'now()' })
  createdAt!: Date;

  @ManyToOne(() => ApiKey, { onDelete: 'CASCADE' })
  @JoinColumn({
    name: 'api_key_id',
    foreignKeyConstraintName: 'idempotency_keys_api_key_id_fkey',
  })
  apiKey?: ApiKey;

  @ManyToOne(() => Pet, { onDelete: 'CASCADE' })
  @JoinColumn({ name: 'pet_id', foreignKeyConstraintName: 'idempotency_keys_pet_id_fkey' })
  pet?: Pet;
}
