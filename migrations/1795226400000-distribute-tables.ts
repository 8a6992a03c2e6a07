import type { Migration, SqlSession, TableLocks } from './migration.js';

const DISTRIBUTED: TableLocks = {
  pets: 'ACCESS EXCLUSIVE',
  orders: 'ACCESS EXCLUSIVE',
  idempotency_keys: 'ACCESS EXCLUSIVE',
};

/**
 * On Citus, pets and orders are distributed by their ids and idempotency_keys by its key. api_keys stays on the coordinator,
 * so that keys can be revoked while a worker is away. The foreign keys of these tables are dropped: Citus supports none
 * between tables that are distributed by other columns, or to a local table. docs/citus.md has the same statements for a
 * database whose migrations were applied before the extension. On PostgreSQL without it, this changes nothing.
 */
export class DistributeTables1795226400000 implements Migration {
  name = 'DistributeTables1795226400000';
  purpose = 'Distributes the tables if the database has the extension citus, else changes nothing.';
  locks = { up: {}, down: {} } as const;
  // Dropping a foreign key locks both tables.
  locksOnCitus = { up: { ...DISTRIBUTED, api_keys: 'ACCESS EXCLUSIVE' }, down: {} } as const;
  drops = [];
  isOptional = true as const;

  async up(session: SqlSession): Promise<void> {
    await session.query(`
      do $$ begin
        if exists (select from pg_extension where extname = 'citus') then
          alter table orders drop constraint if exists orders_pet_id_fkey;
          alter table idempotency_keys
            drop constraint if exists idempotency_keys_pet_id_fkey,
            drop constraint if exists idempotency_keys_api_key_id_fkey;
          perform create_distributed_table('pets', 'id');
          perform create_distributed_table('orders', 'id', colocate_with => 'pets');
          perform create_distributed_table('idempotency_keys', 'key', colocate_with => 'none');
        end if;
      end $$
    `);
  }

  /** Refuses to change tables that are distributed: Citus cannot make a table with an identity column local. */
  async down(session: SqlSession): Promise<void> {
    await session.query(`
      do $$ begin
        if exists (select from pg_trigger where tgfoid = to_regproc('citus_truncate_trigger')
                      and tgrelid in (to_regclass('pets'), to_regclass('orders'), to_regclass('idempotency_keys'))) then
          raise 'Distributed tables cannot be made local. docs/citus.md says how to copy them to another database.';
        end if;
      end $$
    `);
  }
}
