import { Check, Column, Entity, ForeignKey, Index, PrimaryGeneratedColumn } from 'typeorm';
import { Pet } from '../pets/pet.entity.js';

/**
 * An order, which the store's own systems write. Every column that is declared here is in listOrders. RFC 3339 can
 * write `placedAt`: its year has four digits. The index serves the check that a pet to be deleted has no orders.
 */
@Entity('orders')
@Check('orders_status_check', `status in ('placed', 'approved', 'delivered')`)
@Check(
  'orders_placed_at_check',
  `placed_at >= '0001-01-01T00:00:00Z' and placed_at < '10000-01-01T00:00:00Z'`,
)
@Index('orders_pet_id_idx', ['petId'])
export class Order {
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'orders_pkey',
  })
  id!: string;

  @Column({ name: 'pet_id', type: 'bigint' })
  @ForeignKey(() => Pet, { name: 'orders_pet_id_fkey', onDelete: 'RESTRICT' })
  petId!: string;

  @Column({ type: 'text', enum: ['placed', 'approved', 'delivered'], default: 'placed' })
  status!: string;

  @Column({ name: 'placed_at', type: 'timestamp with time zone', default: () => 'now()' })
  placedAt!: Date;
}
