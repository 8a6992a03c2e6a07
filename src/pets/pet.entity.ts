import { Check, Column, Entity, Index, PrimaryGeneratedColumn } from 'typeorm';
import type { PetStatus } from './pet-status.js';

/** An animal, as the table `pets` holds it. */
@Entity('pets')
@Check('pets_name_check', `name <> ''`)
@Check('pets_status_check', `status in ('available', 'pending', 'sold')`)
@Index('pets_status_id_idx', ['status', 'id'])
export class Pet {
  /** An int64 in decimal: a double could not hold it. */
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'BY DEFAULT',
    primaryKeyConstraintName: 'pets_pkey',
  })
  id!: string;

  /** 1 to 255 code points, as sent. */
  @Column('character varying', { length: 255 })
  name!: string;

  /** An int64 in decimal. */
  @Column('bigint', { name: 'category_id' })
  categoryId!: string;

  @Column('text', { default: 'available' })
  status!: PetStatus;
}
