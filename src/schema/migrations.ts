import type { DataSource, QueryRunner } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import type { Environment } from '../config/environment.js';
import { VERSION } from '../config/project-root.js';
import { administer } from '../database/database.js';
import { OperatorError } from '../errors/operator-error.js';
import { appliedMigrations, BOOKKEEPING, pendingMigrations } from './bookkeeping.js';
import { NO_TRANSACTION, requireDirect, runAll, TRANSACTION, underLock } from './locks.js';
import { findingsOf, requireOneSchema } from './schema-state.js';

const ALL: readonly Migration[] = migrations.map((Each) => new Each());

export const frameOf = ({ transaction }: Migration) =>
  transaction === false ? NO_TRANSACTION : TRANSACTION;

/**
 * @returns the migrations that are to be applied, oldest first.
 * @throws OperatorError as {@link requireOneSchema}.
 */
export async function nextMigrations(session: DataSource | QueryRunner): Promise<Migration[]> {
  await requireOneSchema(session);
  const pending = await pendingMigrations(session);
  return ALL.filter(({ name }) => pending.includes(name));
}

/**
 * @returns the migration that was applied last, or `undefined` if none is applied.
 * @throws OperatorError if this code does not have it, and as {@link requireOneSchema}.
 */
export async function lastMigration(
  session: DataSource | QueryRunner,
): Promise<Migration | undefined> {
  await requireOneSchema(session);
  const last = (await appliedMigrations(session)).at(-1);
  const found = ALL.find(({ name }) => name === last?.name);
  if (last !== undefined && found === undefined) {
    throw new OperatorError(
      `${last.name}, applied last, is not a migration of this version: revert it with the version that has it.`,
    );
  }
  return found;
}

/**
 * The statements that apply or revert a migration, and record it. If an attempt to build an index outside a transaction
 * was interrupted, the index may exist already. So it is dropped first, as the down migration does.
 */
export async function statementsOf(migration: Migration, way: 'up' | 'down'): Promise<string[]> {
  const { name } = migration;
  const statements: string[] = [];
  const session = { query: async (sql: string) => statements.push(withoutIndent(sql)) };
  if (way === 'up' && migration.transaction === false) {
    await migration.down(session);
  }
  await migration[way](session);
  const record =
    way === 'up'
      ? `insert into migrations (timestamp, name, version) values (${name.slice(-13)}, '${name}', '${VERSION}')`
      : `delete from migrations where name = '${name}'`;
  return [...statements, record];
}

/** `sql` without the indentation of the source file. */
export function withoutIndent(sql: string): string {
  const lines = sql
    .replace(/^\s*\n/, '')
    .trimEnd()
    .split('\n');
  const indents = lines.filter((line) => line.trim() !== '').map((line) => line.search(/\S/));
  return lines.map((line) => line.slice(Math.min(...indents))).join('\n');
}

/**
 * Applies the pending migrations, each in a transaction, except those that run outside a transaction.
 *
 * @returns their names.
 * @throws OperatorError if the database at `url` cannot be used, if a pooler is in between, if other sessions lock a
 *   table for too long, or if a migration outside a transaction fails.
 */
export async function runMigrations(url: string): Promise<string[]> {
  return administer(url, async (dataSource) => {
    await requireDirect(dataSource);
    const applied: string[] = [];
    try {
      for (;;) {
        const [next] = await nextMigrations(dataSource);
        if (next === undefined) {
          return applied;
        }
        const isDone = await underLock(dataSource, frameOf(next), async (session) => {
          await session.query(BOOKKEEPING);
          // Another process may have applied it meanwhile.
          const isPending = (await nextMigrations(session))[0] === next;
          return isPending && execute(session, next, 'up');
        });
        applied.push(...(isDone ? [next.name] : []));
      }
    } catch (error) {
      if (applied.length > 0) {
        console.error(`Applied ${applied.join(', ')}, and then failed:`);
      }
      throw error;
    }
  });
}

/** @throws OperatorError that says what a migration outside a transaction may have left. */
async function execute(session: QueryRunner, migration: Migration, way: 'up' | 'down') {
  try {
    await runAll(session, await statementsOf(migration, way));
    return true;
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
  if (error !== undefined) {
    const remedy = `\nApply them with npm run migration:run, ${isPooled ? 'without the pooler' : 'or start with MIGRATE_ON_START=true'}.`;
    throw new OperatorError(error.message + (error.about === 'migrations' ? remedy : ''));
  }
}

/**
 * Reverts the migration that was applied last.
 *
 * @param expected the migration to revert, if the caller knows it.
 * @returns its name, or `undefined` if none is applied.
 * @throws OperatorError as {@link runMigrations} and {@link lastMigration}, or if it is not the expected one.
 */
export async function revertMigration(
  url: string,
  expected?: Migration,
): Promise<string | undefined> {
  return administer(url, async (dataSource) => {
    await requireDirect(dataSource);
    const last = expected ?? (await lastMigration(dataSource));
    if (last === undefined) {
      return undefined;
    }
    return underLock(dataSource, frameOf(last), async (session) => {
      if ((await lastMigration(session)) !== last) {
        throw new OperatorError(
          `Nothing was reverted: ${last.name} is no longer the migration applied last.`,
        );
      }
      await execute(session, last, 'down');
      return last.name;
    });
  });
}
