import { Check, Column, Entity, Index, PrimaryGeneratedColumn } from 'typeorm';

/** PetStatus (interface, part 2). */
export const PET_STATUSES = ['available', 'pending', 'sold'] as const;

export type PetStatus = (typeof PET_STATUSES)[number];

/** The maximum number of code points of a name. */
export const NAME_LENGTH = 255;

/** A pet (interface, part 2). PetStore reads every column, and writes those whose property NewPet has, too. */
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

  @Column({ name: 'category_id', type: 'bigint' })
  categoryId!: string;

  @Column({ type: 'text', enum: PET_STATUSES, default: 'available' })
  status!: PetStatus;
}
