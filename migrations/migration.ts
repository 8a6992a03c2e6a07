import type { MigrationInterface } from 'typeorm';

/** A table lock that is in the way of somebody's writes (PostgreSQL, section 13.3.1). */
export type TableLock = 'SHARE' | 'SHARE ROW EXCLUSIVE' | 'ACCESS EXCLUSIVE';

/** By table. */
export type TableLocks = Readonly<Record<string, TableLock>>;

/** A step of the schema, and what a DBA has to know before applying or reverting it. */
export interface Migration extends MigrationInterface {
  /** The class's name; its last 13 digits order the migrations. */
  name: string;
  /** What it is for, in a sentence. */
  purpose: string;
  /** The locks on tables that exist before, held until the transaction ends. */
  locks: { up: TableLocks; down: TableLocks };
  /** The tables that {@link down} drops, with their rows and the rights granted on them. */
  drops: readonly string[];

  up(session: SqlSession): Promise<void>;
  down(session: SqlSession): Promise<void>;
}

/**
 * What a migration is given: its statements are the same on every database, as `migrate sql` prints them without running
 * any.
 */
export interface SqlSession {
  query(sql: string): Promise<unknown>;
}
