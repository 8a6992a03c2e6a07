import type { QueryRunner } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import type { Environment } from '../config/environment.js';
import { administer, describe } from '../database/connect.js';
import { OperatorError } from '../errors/operator-error.js';
import { NO_TRANSACTION, runAll, TRANSACTION, underLock } from './locks.js';
import {
  appliedMigrations,
  BOOKKEEPING,
  findingsOf,
  pendingMigrations,
  requireOneSchema,
  type Session,
} from './schema-state.js';

export const frameOf = ({ transaction }: Migration) =>
  transaction === false ? NO_TRANSACTION : TRANSACTION;

/** @returns the migrations that are to be applied, oldest first. @throws OperatorError as {@link requireOneSchema}. */
export async function nextMigrations(session: Session): Promise<Migration[]> {
  await requireOneSchema(session);
  const pending = await pendingMigrations(session);
  return migrations.filter(({ name }) => pending.includes(name));
}

/** @returns the migration that was applied last, if any. @throws OperatorError if this code does not have it. */
export async function lastMigration(session: Session): Promise<Migration | undefined> {
  await requireOneSchema(session);
  const last = (await appliedMigrations(session)).at(-1);
  const found = migrations.find(({ name }) => name === last);
  if (last !== undefined && found === undefined) {
    throw new OperatorError(
      `${last}, applied last, is not a migration of this version: revert it with the version that has it.`,
    );
  }
  return found;
}

/** The statements that apply or revert a migration, and record it. What an interrupted attempt left is dropped first. */
export async function statementsOf(migration: Migration, way: 'up' | 'down'): Promise<string[]> {
  const { name } = migration;
  const statements: string[] = [];
  const session = { query: async (sql: string) => statements.push(sql.trim()) };
  if (way === 'up' && migration.transaction === false) {
    await migration.down(session);
  }
  await migration[way](session);
  const record =
    way === 'up'
      ? `insert into migrations (timestamp, name) values (${name.slice(-13)}, '${name}')`
      : `delete from migrations where name = '${name}'`;
  return [...statements, record];
}

/** Applies the pending migrations. @returns their names. @throws OperatorError, also if a table stays locked. */
export async function runMigrations(url: string): Promise<string[]> {
  return administer(url, async (dataSource) => {
    const applied: string[] = [];
    for (;;) {
      const [next] = await nextMigrations(dataSource);
      if (next === undefined) {
        return applied;
      }
      await underLock(dataSource, frameOf(next), async (session) => {
        await session.query(BOOKKEEPING);
        // Another process may have applied it meanwhile.
        if ((await nextMigrations(session))[0] === next) {
          await execute(session, next, 'up');
          applied.push(next.name);
        }
      });
    }
  });
}

/** @throws OperatorError that says what a migration outside a transaction may have left. */
async function execute(session: QueryRunner, migration: Migration, way: 'up' | 'down') {
  try {
    await runAll(session, await statementsOf(migration, way));
  } catch (error) {
    if (migration.transaction !== false) {
      throw error;
    }
    const message =
      `${(error as Error).message}\n${migration.name} runs outside a transaction. It may have left an invalid index, ` +
      'which slows writes down and serves no statement. Run the command again: it first drops that index.';
    throw new OperatorError(message, { cause: error });
  }
}

/**
 * Applies the pending migrations if `MIGRATE_ON_START` is true and there is no pooler, or if the database is embedded.
 *
 * @throws OperatorError if the database cannot be used, or if migrations stay pending that a pet needs.
 */
export async function requireMigrated(
  url: string,
  { NODE_ENV, DATABASE_URL, DATABASE_POOLER, MIGRATE_ON_START }: Environment,
): Promise<void> {
  const { where, findings } = await administer(url, async (dataSource) => ({
    where: await describe(url, dataSource),
    findings: await findingsOf(dataSource),
  }));
  const isPooled = DATABASE_POOLER !== undefined;
  const mayMigrate = DATABASE_URL === undefined || (MIGRATE_ON_START && !isPooled);
  if (mayMigrate && findings.some(({ about }) => about === 'migrations')) {
    await runMigrations(url);
    return;
  }
  const error = findings.find(({ about, isError }) => about !== 'rights' && isError);
  if (error !== undefined) {
    const remedy = `\nApply them with npm run migration:run, ${isPooled ? 'without the pooler' : 'or start with MIGRATE_ON_START=true'}.`;
    const local =
      NODE_ENV === 'production' ? '' : ' To use the embedded PostgreSQL, unset DATABASE_URL.';
    throw new OperatorError(
      `${where}: ${error.message}${error.about === 'migrations' ? remedy : ''}${local}`,
    );
  }
}

/** Reverts the migration that was applied last, if it is the one that the caller expects. @returns its name. */
export const revertMigration = (url: string, expected?: Migration): Promise<string | undefined> =>
  administer(url, async (dataSource) => {
    const last = expected ?? (await lastMigration(dataSource));
    const revert = async (session: QueryRunner) => {
      if ((await lastMigration(session)) !== last) {
        throw new OperatorError(`Nothing was reverted: ${last!.name} is no longer the last one.`);
      }
      await execute(session, last!, 'down');
      return last!.name;
    };
    return last && underLock(dataSource, frameOf(last), revert);
  });
