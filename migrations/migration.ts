import type { MigrationInterface } from 'typeorm';

/** A table lock that blocks writes of other sessions (PostgreSQL, section 13.3.1). */
export type TableLock = 'SHARE' | 'SHARE ROW EXCLUSIVE' | 'EXCLUSIVE' | 'ACCESS EXCLUSIVE';

/** By table. */
export type TableLocks = Readonly<Record<string, TableLock>>;

/** A change of the schema, and what a DBA must know before applying or reverting it. */
export interface Migration extends MigrationInterface {
  /** The class's name; its last 13 digits order the migrations. */
  name: string;
  /** Its purpose, in a sentence. */
  purpose: string;
  /** Its locks on existing tables, held until the transaction ends. */
  locks: { up: TableLocks; down: TableLocks };
  /** The same on Citus, if it differs there. */
  locksOnCitus?: { up: TableLocks; down: TableLocks };
  /** The existing tables of which it rewrites all rows. */
  rewrites?: { up?: readonly string[]; down?: readonly string[] };
  /**
   * False if it is applied and reverted outside a transaction, for `create index concurrently`. Each direction is then
   * a single statement. If it fails, what it did before stays.
   */
  transaction?: false;
  /**
   * What {@link down} drops: tables, with their rows and the rights granted on them, and columns of other tables, as
   * `table.column`.
   */
  drops: readonly string[];
  /**
   * True if listPets, createPet and getPet work without it. While it is pending, the service starts, and is ready, with a
   * warning.
   */
  isOptional?: true;
  /** The rights on it that the service's role needs, such as `select on orders`, if listPets, createPet and getPet do not. */
  rights?: readonly string[];

  up(session: SqlSession): Promise<void>;
  down(session: SqlSession): Promise<void>;
}

/**
 * The session of a migration. `migrate sql` prints statements without running them, so they must be the same on every
 * database.
 */
export interface SqlSession {
  query(sql: string): Promise<unknown>;
}
