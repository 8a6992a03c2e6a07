import type { DataSource, QueryRunner } from 'typeorm';

/** TypeORM's own table, with two columns for people: when a migration was applied, and by which version. */
const CREATE = `create table migrations (
  id serial not null,
  timestamp bigint not null,
  name character varying not null,
  applied_at timestamp with time zone default now(),
  version text,
  constraint "PK_8c82d7f526340ab734260ea46be" primary key (id)
)`;

/** For a table without them. What was applied before has neither. */
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

/** A migration that the database has. */
export interface AppliedMigration {
  name: string;
  /** Null if that was not recorded. */
  appliedAt: Date | null;
  /** The version of this package that applied it; null if that was not recorded. */
  version: string | null;
}

/** @returns what the database has, oldest first; nothing if it was never migrated. */
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
