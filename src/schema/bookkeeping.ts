import type { DataSource, QueryRunner } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { sqlState } from '../errors/database-error.js';

/** SQLSTATE of a statement on a table that does not exist. */
const UNDEFINED_TABLE = '42P01';

/** TypeORM's table of migrations, with two more columns: when a migration was applied, and by which version. */
const CREATE = `create table migrations (
  id serial not null,
  timestamp bigint not null,
  name character varying not null,
  applied_at timestamp with time zone default now(),
  version text,
  constraint "PK_8c82d7f526340ab734260ea46be" primary key (id)
)`;

/** Adds the two columns. They are null for migrations that were applied before. */
const ADD_COLUMNS = [
  `alter table migrations
  add column applied_at timestamp with time zone,
  add column version text`,
  `alter table migrations alter column applied_at set default now()`,
];

/** @returns the statements that the table of applied migrations needs before a row is added. */
export async function missingBookkeeping(session: DataSource | QueryRunner): Promise<string[]> {
  const [{ exists, isComplete }] = await session.query(
    `select to_regclass('migrations') is not null as exists,
            exists (select from pg_attribute
                     where attrelid = to_regclass('migrations') and attname = 'version'
                       and not attisdropped) as "isComplete"`,
  );
  return exists ? (isComplete ? [] : ADD_COLUMNS) : [CREATE];
}

/** A migration that is applied. */
export interface AppliedMigration {
  name: string;
  /** Null if that was not recorded. */
  appliedAt: Date | null;
  /** The version of this package that applied it; null if that was not recorded. */
  version: string | null;
}

/** @returns the applied migrations, oldest first; empty if there are none. */
export async function migrationHistory(dataSource: DataSource): Promise<AppliedMigration[]> {
  const missing = await missingBookkeeping(dataSource);
  if (missing[0] === CREATE) {
    return [];
  }
  const columns =
    missing.length === 0 ? 'applied_at, version' : 'null as applied_at, null as version';
  const rows = await dataSource.query(
    `select name, ${columns} from migrations order by timestamp, id`,
  );
  return rows.map(({ name, applied_at, version }: Record<string, unknown>) => ({
    name,
    appliedAt: applied_at,
    version,
  }));
}

/** @returns the names of this code's migrations that are not applied, oldest first. */
export async function pendingMigrations(dataSource: DataSource): Promise<string[]> {
  return pendingAfter(await appliedMigrations(dataSource));
}

/** @returns the names of the migrations of this code that are not among `applied`, oldest first. */
export function pendingAfter(applied: Iterable<string>): string[] {
  const names = new Set(applied);
  return MIGRATION_NAMES.filter((name) => !names.has(name));
}

/** @returns the names of all applied migrations, including those of later versions. */
export async function appliedMigrations(dataSource: DataSource): Promise<Set<string>> {
  try {
    const rows = await dataSource.query<{ name: string }[]>('select name from migrations');
    return new Set(rows.map(({ name }) => name));
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) {
      return new Set();
    }
    throw error;
  }
}
