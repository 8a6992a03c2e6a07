import { CreatePets1795046400000 } from './1795046400000-create-pets.js';
import { CreateApiKeys1795046460000 } from './1795046460000-create-api-keys.js';
import { CreateIdempotencyKeys1795132800000 } from './1795132800000-create-idempotency-keys.js';
import { CreateOrders1795222800000 } from './1795222800000-create-orders.js';
import type { Migration, SqlSession, TableLocks } from './migration.js';

const EVERY_TABLE: TableLocks = {
  pets: 'ACCESS EXCLUSIVE',
  api_keys: 'ACCESS EXCLUSIVE',
  idempotency_keys: 'ACCESS EXCLUSIVE',
  orders: 'ACCESS EXCLUSIVE',
};

/**
 * On Citus, pets and orders are distributed by their ids and idempotency_keys by its key, and each node has a copy of
 * api_keys. The two foreign keys to pets are dropped, because Citus supports none between tables that are distributed by
 * other columns. On PostgreSQL without the extension `citus`, neither direction changes anything.
 */
export class DistributeTables1795226400000 implements Migration {
  name = 'DistributeTables1795226400000';
  purpose = 'Distributes the tables if the database has the extension citus, else changes nothing.';
  locks = { up: {}, down: {} } as const;
  // Dropping a foreign key locks both tables. Citus drops and adds the one to the reference table again.
  locksOnCitus = { up: EVERY_TABLE, down: EVERY_TABLE };
  drops = [];
  isOptional = true as const;

  /** Citus requires the sequential mode, because the foreign key to api_keys is to a reference table. */
  async up(session: SqlSession): Promise<void> {
    await session.query(`
      do $$ begin
        if exists (select from pg_extension where extname = 'citus') then
          set local citus.multi_shard_modify_mode = 'sequential';
          alter table orders drop constraint orders_pet_id_fkey;
          alter table idempotency_keys drop constraint idempotency_keys_pet_id_fkey;
          perform create_reference_table('api_keys');
          perform create_distributed_table('pets', 'id');
          perform create_distributed_table('orders', 'id', colocate_with => 'pets');
          perform create_distributed_table('idempotency_keys', 'key', colocate_with => 'none');
        end if;
      end $$
    `);
  }

  /**
   * Creates the tables again, because Citus cannot make a table with an identity column local. Their grants are lost.
   * Keys of deleted pets are left out. An order of a deleted pet makes this fail.
   */
  async down(session: SqlSession): Promise<void> {
    await session.query(`
      do $$ begin
        if exists (select from pg_extension where extname = 'citus') then
          set local citus.multi_shard_modify_mode = 'sequential';
          lock table pets, api_keys, idempotency_keys, orders in access exclusive mode;
          create temporary table old_pets on commit drop as table pets;
          create temporary table old_api_keys on commit drop as table api_keys;
          create temporary table old_idempotency_keys on commit drop as table idempotency_keys;
          create temporary table old_orders on commit drop as table orders;
          create temporary table old_ids on commit drop as
            select nextval('pets_id_seq') as pets, nextval('api_keys_id_seq') as api_keys,
                   nextval('orders_id_seq') as orders;
          drop table pets, api_keys, idempotency_keys, orders;
          ${await creations()}
          insert into pets table old_pets;
          insert into api_keys overriding system value table old_api_keys;
          insert into idempotency_keys
            select * from old_idempotency_keys where pet_id in (select id from pets);
          insert into orders overriding system value table old_orders;
          perform setval('pets_id_seq', pets), setval('api_keys_id_seq', api_keys),
                  setval('orders_id_seq', orders) from old_ids;
        end if;
      end $$
    `);
  }
}

/** The statements of the migrations that created the tables. */
async function creations(): Promise<string> {
  const statements: string[] = [];
  for (const Each of [
    CreatePets1795046400000,
    CreateApiKeys1795046460000,
    CreateIdempotencyKeys1795132800000,
    CreateOrders1795222800000,
  ]) {
    await new Each().up({ query: async (sql) => statements.push(`${sql.trim()};`) });
  }
  return statements.map((sql) => sql.replaceAll('\n', '\n    ')).join('\n          ');
}
