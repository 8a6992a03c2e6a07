import {
  Check,
  Column,
  Entity,
  Index,
  JoinColumn,
  ManyToOne,
  PrimaryGeneratedColumn,
} from 'typeorm';
import { Pet } from '../pets/pet.entity.js';
import type { OrderStatus } from './order-status.js';

/** An order of an animal, as the table `orders` holds it. The store's own systems write it; the service reads it. */
@Entity('orders')
@Check('orders_status_check', `status in ('placed', 'approved', 'delivered')`)
@Check(
  'orders_placed_at_check',
  `placed_at >= '0001-01-01T00:00:00Z' and placed_at < '10000-01-01T00:00:00Z'`,
)
@Index('orders_pet_id_idx', ['petId'])
export class Order {
  /** An int64 in decimal: a double could not hold it. */
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'orders_pkey',
  })
  id!: string;

  /** An int64 in decimal. */
  @Column('bigint', { name: 'pet_id' })
  petId!: string;

  @Column('text', { default: 'placed' })
  status!: OrderStatus;

  @Column('timestamp with time zone', { name: 'placed_at', default: () => 'now()' })
  placedAt!: Date;

  @ManyToOne(() => Pet, { onDelete: 'RESTRICT' })
  @JoinColumn({ name: 'pet_id', foreignKeyConstraintName: 'orders_pet_id_fkey' })
  pet?: Pet;
}
