import type { DataSource, QueryRunner } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { sqlState } from '../errors/database-error.js';

/** SQLSTATE of a statement on a table that does not exist. */
const UNDEFINED_TABLE = '42P01';

/**
 * TypeORM's table of migrations, and two more columns: when a migration was applied, and by which version. They are null
 * for migrations that were applied before the table had them.
 */
const BOOKKEEPING = [
  `create table if not exists migrations (
  id serial not null,
  timestamp bigint not null,
  name character varying not null,
  constraint "PK_8c82d7f526340ab734260ea46be" primary key (id)
)`,
  `alter table migrations
  add column applied_at timestamp with time zone,
  add column version text`,
  `alter table migrations alter column applied_at set default now()`,
];

/** @returns the statements that the table of applied migrations needs before a row is added. */
export async function missingBookkeeping(session: DataSource | QueryRunner): Promise<string[]> {
  const columns = await session.query(
    `select from pg_attribute
      where attrelid = to_regclass('migrations') and attname = 'version' and not attisdropped`,
  );
  return columns.length > 0 ? [] : BOOKKEEPING;
}

/** A migration that is applied. */
export interface AppliedMigration {
  name: string;
  /** Null if that was not recorded. */
  appliedAt: Date | null;
  /** The version of this package that applied it; null if that was not recorded. */
  version: string | null;
}

/** @returns the applied migrations, oldest first, including those of later versions. */
export async function appliedMigrations(dataSource: DataSource): Promise<AppliedMigration[]> {
  try {
    const rows = await dataSource.query(
      `select name, (to_jsonb(migrations) ->> 'applied_at')::timestamptz as "appliedAt",
              to_jsonb(migrations) ->> 'version' as version
         from migrations order by timestamp, id`,
    );
    return rows;
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) {
      return [];
    }
    throw error;
  }
}

/** @returns the names of this code's migrations that are not applied, oldest first. */
export async function pendingMigrations(dataSource: DataSource): Promise<string[]> {
  return pendingAfter(await appliedMigrations(dataSource));
}

/** @returns the names of this code's migrations that are not among `applied`, oldest first. */
export function pendingAfter(applied: readonly AppliedMigration[]): string[] {
  return MIGRATION_NAMES.filter((name) => !applied.some((it) => it.name === name));
}
