import type { Migration, SqlSession } from './migration.js';

/**
 * The orders. Times are limited to those of RFC 3339, whose years have four digits. The index is for queries for the
 * orders of a pet, and for the foreign key check when a pet is deleted.
 */
export class CreateOrders1795222800000 implements Migration {
  name = 'CreateOrders1795222800000';
  purpose = "Creates orders, which the store's own systems write.";
  locks = {
    up: { pets: 'SHARE ROW EXCLUSIVE' },
    down: { orders: 'ACCESS EXCLUSIVE', pets: 'ACCESS EXCLUSIVE' },
  } as const;
  drops = ['orders'];
  isOptional = true as const;
  rights = ['select on orders'];

  async up(session: SqlSession): Promise<void> {
    await session.query(`
      create table orders (
        id bigint generated always as identity,
        pet_id bigint not null,
        status text not null default 'placed',
        placed_at timestamp with time zone not null default now(),
        constraint orders_pkey primary key (id),
        constraint orders_status_check check (status in ('placed', 'approved', 'delivered')),
        constraint orders_placed_at_check
          check (placed_at >= '0001-01-01T00:00:00Z' and placed_at < '10000-01-01T00:00:00Z'),
        constraint orders_pet_id_fkey foreign key (pet_id) references pets (id) on delete restrict
      )
    `);
    await session.query(`create index orders_pet_id_idx on orders (pet_id)`);
  }

  async down(session: SqlSession): Promise<void> {
    await session.query(`drop table orders`);
  }
}
