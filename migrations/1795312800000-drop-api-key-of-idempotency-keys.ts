import type { Migration, SqlSession } from './migration.js';

/** Citus requires this mode for a foreign key to a reference table. PostgreSQL ignores the setting. */
const SEQUENTIAL = `set local citus.multi_shard_modify_mode = 'sequential'`;

/**
 * Each insert of a record locked the row of its API key, to check the foreign key. A transaction that held this row
 * delayed the creates of other API keys too, because they share a statement.
 */
export class DropApiKeyOfIdempotencyKeys1795312800000 implements Migration {
  name = 'DropApiKeyOfIdempotencyKeys1795312800000';
  purpose = 'Drops the foreign key from idempotency_keys to api_keys, whose check waits for locks.';
  locks = {
    up: { idempotency_keys: 'ACCESS EXCLUSIVE', api_keys: 'ACCESS EXCLUSIVE' },
    down: { idempotency_keys: 'SHARE ROW EXCLUSIVE', api_keys: 'SHARE ROW EXCLUSIVE' },
  } as const;
  isOptional = true as const;
  drops = [];

  async up(session: SqlSession): Promise<void> {
    await session.query(SEQUENTIAL);
    await session.query(
      `alter table idempotency_keys drop constraint if exists idempotency_keys_api_key_id_fkey`,
    );
  }

  /** Records of API keys that were deleted meanwhile are deleted. Citus supports no such key of a distributed table. */
  async down(session: SqlSession): Promise<void> {
    await session.query(SEQUENTIAL);
    await session.query(
      `delete from idempotency_keys where api_key_id not in (select id from api_keys)`,
    );
    await session.query(`
      do $$ begin
        if not exists (select from pg_trigger where tgfoid = to_regproc('citus_truncate_trigger')
                          and tgrelid = to_regclass('idempotency_keys')) then
          alter table idempotency_keys add constraint idempotency_keys_api_key_id_fkey
            foreign key (api_key_id) references api_keys (id) on delete cascade;
        end if;
      end $$
    `);
  }
}
