import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

@Entity('pets')
export class Pet {
  @PrimaryGeneratedColumn('identity', { type: 'bigint' })
  id!: string;

  @Column('character varying', { length: 255 })
  name!: string;

  @Column('bigint', { name: 'category_id' })
  categoryId!: string;

  @Column('text')
  status!: string;
}
