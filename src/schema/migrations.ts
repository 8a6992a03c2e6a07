import { setTimeout as wait } from 'node:timers/promises';
import { type DataSource, MigrationExecutor, type QueryRunner } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import type { Environment, Pooler } from '../config/environment.js';
import { VERSION } from '../config/project-root.js';
import { administer } from '../database/database.js';
import { OperatorError } from '../errors/operator-error.js';
import { missingBookkeeping, pendingMigrations } from './bookkeeping.js';
import { inTransaction, outsideTransaction } from './locks.js';
import { findingsOf, requireOneSchema } from './schema-state.js';

/**
 * The advisory lock under which migrations run (PostgreSQL, section 13.3.5), so that several instances starting at once
 * apply each migration once. The number is arbitrary and must never change.
 */
export const MIGRATION_LOCK = 7_236_102_511;

/** Milliseconds between two attempts to get the advisory lock. */
const LOCK_PAUSE = 100;

/**
 * Applies the pending migrations, in one transaction. If some of them run outside a transaction, there is a transaction
 * for those before, between and after them.
 *
 * @returns the names of the applied migrations.
 * @throws OperatorError if the database at `url` cannot be used, if a pooler is in between, if other sessions lock a
 *   table for too long, or if a migration outside a transaction fails.
 */
export async function runMigrations(url: string): Promise<string[]> {
  return withMigrations(url, async (dataSource) => {
    await requireDirect(dataSource);
    await requireOneSchema(dataSource);
    const applied: string[] = [];
    try {
      for (;;) {
        const [next] = await pendingMigrations(dataSource);
        if (next === undefined) {
          return applied;
        }
        const isOutside = isOutsideTransaction(next);
        const names = await underLock(dataSource, isOutside, (executor, session) =>
          apply(executor, session, isOutside),
        );
        applied.push(...names);
      }
    } catch (error) {
      if (applied.length > 0) {
        console.error(`Applied ${applied.join(', ')}, and then failed:`);
      }
      throw error;
    }
  });
}

/**
 * Applies the pending migrations if `MIGRATE_ON_START` is true and there is no pooler, or if the database is embedded.
 *
 * @throws OperatorError if the database at `url` cannot be used, or if migrations stay pending that listPets, createPet
 *   or getPet need.
 */
export async function requireMigrated(
  url: string,
  { DATABASE_URL, DATABASE_POOLER, MIGRATE_ON_START }: Environment,
): Promise<void> {
  const findings = await administer(url, findingsOf);
  const isPooled = DATABASE_POOLER !== undefined;
  const mayMigrate = DATABASE_URL === undefined || (MIGRATE_ON_START && !isPooled);
  if (mayMigrate && findings.some(({ about }) => about === 'migrations')) {
    await runMigrations(url);
    return;
  }
  const error = findings.find(({ about, isError }) => about !== 'rights' && isError);
  if (error?.about === 'migrations') {
    throw new OperatorError(
      `${error.message}\n` +
        `Apply them with npm run migration:run, ${isPooled ? 'without the pooler' : 'or start with MIGRATE_ON_START=true'}.`,
    );
  } else if (error !== undefined) {
    throw new OperatorError(error.message);
  }
}
const withMigrations = <T>(url: string, work: (dataSource: DataSource) => Promise<T>) =>
  administer(url, work, { migrations: [...migrations] });

/** Applies the pending migrations until one differs from `isOutside`. @returns their names. */
async function apply(
  executor: MigrationExecutor,
  session: QueryRunner,
  isOutside: boolean,
): Promise<string[]> {
  const pending = await executor.getPendingMigrations();
  const end = pending.findIndex(({ name }) => isOutsideTransaction(name) !== isOutside);
  const next = end === -1 ? pending : pending.slice(0, end);
  for (const statement of next.length === 0 ? [] : await missingBookkeeping(session)) {
    await session.query(statement);
  }
  for (const migration of next) {
    await executor.executeMigration(migration);
    await session.query('update migrations set version = $1 where name = $2', [
      VERSION,
      migration.name,
    ]);
  }
  return next.map(({ name }) => name);
}

/**
 * Reverts the migration that was applied last.
 *
 * @param expected the name of the migration to revert, if the caller knows it.
 * @returns its name, or `undefined` if none is applied.
 * @throws OperatorError as {@link runMigrations}, if this code does not have the migration, or if it is not the
 *   expected one.
 */
export async function revertMigration(url: string, expected?: string): Promise<string | undefined> {
  return withMigrations(url, async (dataSource) => {
    await requireDirect(dataSource);
    const name = expected ?? (await lastMigration(dataSource))?.name;
    if (name === undefined) {
      return undefined;
    }
    return underLock(dataSource, isOutsideTransaction(name), async (executor) => {
      const [last] = await executor.getExecutedMigrations();
      if (last?.name !== name) {
        throw new OperatorError(
          `Nothing was reverted: ${name} is no longer the migration applied last.`,
        );
      }
      executor.transaction = 'none';
      await executor.undoLastMigration();
      return name;
    });
  });
}

/**
 * @returns the migration applied last, or `undefined` if none is applied.
 * @throws OperatorError if this code does not have it, and as {@link requireOneSchema}.
 */
export async function lastMigration(dataSource: DataSource): Promise<Migration | undefined> {
  await requireOneSchema(dataSource);
  const [last] = await new MigrationExecutor(dataSource).getExecutedMigrations();
  const found = last && migrationOf(last.name);
  if (last !== undefined && found === undefined) {
    throw new OperatorError(
      `${last.name}, applied last, is not a migration of this version: revert it with the version that has it.`,
    );
  }
  return found;
}

/** `undefined` if this code does not have it. */
function migrationOf(name: string): Migration | undefined {
  const Found = migrations.find((it) => it.name === name);
  return Found && new Found();
}

const isOutsideTransaction = (name: string) => migrationOf(name)?.transaction === false;

/**
 * Counts what reverting `migration` would delete now, by table or `table.column`: rows, or values that are not null.
 *
 * @throws OperatorError as {@link inTransaction}.
 */
export async function rowsLostWith(
  { drops }: Migration,
  dataSource: DataSource,
): Promise<Map<string, string>> {
  return inTransaction(dataSource, async (session) => {
    const rows = new Map<string, string>();
    for (const dropped of drops) {
      const [table, column = '*'] = dropped.split('.');
      const [{ count }] = await session.query(`select count(${column}) from ${table}`);
      rows.set(dropped, count);
    }
    return rows;
  });
}

/**
 * Detects a pooler by the process id: a pooler reports its own number to clients, because it gives them several
 * sessions.
 *
 * @param pooler the pooler that the configuration names.
 * @throws OperatorError if there is a pooler: the next client of the session would get the settings and locks of a
 *   migration.
 */
export async function requireDirect(dataSource: DataSource, pooler?: Pooler): Promise<void> {
  const session = dataSource.createQueryRunner();
  try {
    const { processID } = await session.connect();
    const [{ pid }] = await session.query('select pg_backend_pid() as pid');
    if (pooler !== undefined || pid !== processID) {
      throw new OperatorError(
        'Nothing was changed: migrations do not run through a pooler. ' +
          "Set DATABASE_URL to PostgreSQL's own address for this command, and DATABASE_POOLER to nothing.",
      );
    }
  } finally {
    await session.release();
  }
}

/** Calls `work` while the transaction, or the session outside a transaction, holds the advisory lock. */
async function underLock<T>(
  dataSource: DataSource,
  isOutside: boolean,
  work: (executor: MigrationExecutor, session: QueryRunner) => Promise<T>,
): Promise<T> {
  const [begin, take] = isOutside
    ? [outsideTransaction, 'pg_try_advisory_lock']
    : [inTransaction, 'pg_try_advisory_xact_lock'];
  return begin(dataSource, async (session) => {
    // The wait is not inside a statement: a statement has a snapshot, and a `create index concurrently` of the other
    // process would wait until that ends.
    for (let isNoted = false; ; isNoted = true) {
      const [{ isOurs }] = await session.query(`select ${take}($1) as "isOurs"`, [MIGRATION_LOCK]);
      if (isOurs) {
        return work(new MigrationExecutor(dataSource, session), session);
      }
      if (!isNoted) {
        console.error('Another process migrates this database; this one waits for it.');
      }
      await wait(LOCK_PAUSE);
    }
  });
}
