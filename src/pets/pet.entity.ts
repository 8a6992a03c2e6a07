import { Check, Column, Entity, Index, PrimaryGeneratedColumn } from 'typeorm';
import { NAME_LENGTH } from './new-pet.dto.js';
import type { PetStatus } from './pet-status.js';

/**
 * An animal as stored (interface, part 2). The primary key serves listPets without `status`, and the other index serves
 * it with `status`.
 */
@Entity('pets')
@Check('pets_name_check', `name <> ''`)
@Check('pets_status_check', `status in ('available', 'pending', 'sold')`)
@Index('pets_status_id_idx', ['status', 'id'])
export class Pet {
  /** An int64 in decimal. Every `bigint` column is read as a string, so no digit is lost. */
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'BY DEFAULT',
    primaryKeyConstraintName: 'pets_pkey',
  })
  id!: string;

  @Column({ type: 'character varying', length: NAME_LENGTH })
  name!: string;

  /** An int64 in decimal. */
  @Column({ name: 'category_id', type: 'bigint' })
  categoryId!: string;

  @Column({ type: 'text', default: 'available' })
  status!: PetStatus;
}
