import type { DataSource, QueryRunner } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { sqlState } from '../errors/database-error.js';

/** SQLSTATE of a statement on a table that does not exist. */
const UNDEFINED_TABLE = '42P01';

/**
 * Creates TypeORM's table of migrations, with two more columns: when a migration was applied, and by which version. They
 * are null for migrations that were applied before the table had them.
 */
export const BOOKKEEPING = `do $$ begin
  if to_regclass('migrations') is null then
    create table migrations (
      id serial not null,
      timestamp bigint not null,
      name character varying not null,
      constraint "PK_8c82d7f526340ab734260ea46be" primary key (id)
    );
  end if;
  if not exists (select from pg_attribute where attrelid = 'migrations'::regclass and attname = 'version') then
    alter table migrations add column applied_at timestamp with time zone, add column version text;
    alter table migrations alter column applied_at set default now();
  end if;
end $$`;

/** A migration that is applied. */
export interface AppliedMigration {
  name: string;
  /** Null if that was not recorded. */
  appliedAt: Date | null;
  /** The version of this package that applied it; null if that was not recorded. */
  version: string | null;
}

/** @returns the applied migrations in the order in which they were applied, including those of later versions. */
export async function appliedMigrations(
  session: DataSource | QueryRunner,
): Promise<AppliedMigration[]> {
  try {
    return await session.query(
      `select name, (to_jsonb(migrations) ->> 'applied_at')::timestamptz as "appliedAt",
              to_jsonb(migrations) ->> 'version' as version
         from migrations order by id`,
    );
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) {
      return [];
    }
    throw error;
  }
}

/** @returns the names of this code's migrations that are not applied, oldest first. */
export async function pendingMigrations(session: DataSource | QueryRunner): Promise<string[]> {
  const applied = await appliedMigrations(session);
  return MIGRATION_NAMES.filter((name) => !applied.some((it) => it.name === name));
}
