import { setTimeout as pause } from 'node:timers/promises';
import type { DataSource, QueryRunner } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import type { Environment } from '../config/environment.js';
import { administer, describe } from '../database/connect.js';
import { LOCK_TIMEOUT, reasonOf, sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { showProgress } from '../logging/progress.js';
import { BUSY, OUTDATED, statementsOf, UNDO } from './migration-statements.js';
import { appliedMigrations, stateOf } from './schema-state.js';

/** How often a transaction is tried if a table is locked. Between two attempts, requests proceed. */
const ATTEMPTS = 15;

/** Milliseconds: between two attempts, and between two looks at who blocks. */
const PAUSE = 300;
const LOOK = 60;

/** @returns the migrations that are to be applied, oldest first. @throws OperatorError as {@link appliedMigrations}. */
export async function nextMigrations(dataSource: DataSource): Promise<Migration[]> {
  const applied = await appliedMigrations(dataSource);
  return migrations.filter(({ name }) => !applied.includes(name));
}

/** @returns the migration that was applied last, if any. @throws OperatorError if this code does not have it. */
export async function lastMigration(dataSource: DataSource): Promise<Migration | undefined> {
  const last = (await appliedMigrations(dataSource)).at(-1);
  const found = migrations.find(({ name }) => name === last);
  if (last !== undefined && found === undefined) {
    throw new OperatorError(
      `${last}, applied last, is not a migration of this version: revert it with the version that has it.`,
    );
  }
  return found;
}

/** Applies the pending migrations. @returns their names. @throws OperatorError that says which ones, if a later one fails. */
export async function runMigrations(url: string): Promise<string[]> {
  return administer(url, async (dataSource) => {
    const applied: string[] = [];
    for (;;) {
      const [next] = await nextMigrations(dataSource);
      if (next === undefined) {
        return applied;
      }
      try {
        await execute(dataSource, next, 'up');
        applied.push(next.name);
      } catch (error) {
        // If it is outdated, another process has applied the migration.
        if (sqlState(error) !== OUTDATED) {
          const before = applied.length === 0 ? '' : `Applied ${applied.join(', ')}. `;
          const message = `${before}${next.name} failed: ${reasonOf(error)}`;
          throw new OperatorError(message, { cause: error });
        }
      }
    }
  });
}

/** Waits while another process migrates, and tries again if a table is locked. @throws OperatorError that names who blocks. */
async function execute(dataSource: DataSource, migration: Migration, way: 'up' | 'down') {
  const statements = await statementsOf(migration, way);
  let reported = 'A table is locked by sessions that have ended.';
  const report = (obstacle?: string) => {
    if (obstacle && obstacle !== reported) {
      console.error((reported = obstacle));
    }
  };
  const progress = showProgress();
  for (let attempt = 1; ; await pause(PAUSE)) {
    const session = dataSource.createQueryRunner();
    let looking: NodeJS.Timeout | undefined;
    try {
      const pid = await processIdOf(session);
      looking = setInterval(async () => {
        const [seen] = await dataSource.query(OBSERVATION, [pid]).catch(() => []);
        report(seen?.blockers);
        if (seen?.index && looking !== undefined) {
          progress.update(seen.index);
        }
      }, LOOK);
      return await runAll(session, statements);
    } catch (error) {
      // If the connection is lost, PostgreSQL has undone it. A pooler's session has other users.
      if (!(error instanceof OperatorError)) {
        await runAll(session, UNDO).catch(() => {});
      }
      if (sqlState(error) === BUSY) {
        report('Another process migrates this database; this one waits for it.');
        continue;
      }
      if (sqlState(error) !== LOCK_TIMEOUT || migration.transaction === false) {
        throw error;
      }
      if (attempt++ === ATTEMPTS) {
        const message =
          `Nothing was changed in ${ATTEMPTS} attempts of 300 ms. ${reported}\n` +
          'Wait until these sessions end, or end them with pg_terminate_backend(pid). Then run the command again.';
        throw new OperatorError(message, { cause: error });
      }
    } finally {
      clearInterval(looking);
      looking = undefined;
      progress.stop();
      await session.release();
    }
  }
}

/** @throws OperatorError if there is a pooler: its next client would get the settings and locks of a migration. */
async function processIdOf(session: QueryRunner): Promise<number> {
  const { processID } = await session.connect();
  const [{ pid }]: [{ pid: number }] = await session.query('select pg_backend_pid() as pid');
  // A pooler reports a process id of its own.
  if (pid !== processID) {
    throw new OperatorError(
      'Nothing was changed: migrations do not run through a pooler. ' +
        "Set DATABASE_URL to PostgreSQL's own address for this command.",
    );
  }
  return pid;
}

async function runAll(session: QueryRunner, statements: readonly string[]): Promise<void> {
  for (const statement of statements) {
    await session.query(statement);
  }
}

/**
 * For whom session `$1` waits, and how far its `create index concurrently` is in its current phase. A role does not see the
 * state of other roles' sessions, and some phases count nothing.
 */
const OBSERVATION = `
  select (select 'Waits for ' || string_agg(concat_ws(', ', 'pid ' || pid, nullif(application_name, ''), state), '; ') || '.'
            from pg_stat_activity
           where pid = any (pg_blocking_pids($1))) as blockers,
         (select json_build_object('what', phase, 'done', coalesce(nullif(blocks_done, 0), tuples_done),
                                   'total', coalesce(nullif(blocks_total, 0), tuples_total))
            from pg_stat_progress_create_index
           where pid = $1 and blocks_total + tuples_total > 0) as index`;

/**
 * Applies the pending migrations if `MIGRATE_ON_START` is true and there is no pooler, or if the database is embedded.
 * @throws OperatorError if the database cannot be used, or if migrations stay pending that a pet needs.
 */
export async function requireMigrated(
  url: string,
  { NODE_ENV, DATABASE_URL, DATABASE_POOLER, MIGRATE_ON_START }: Environment,
): Promise<void> {
  const { where, findings } = await administer(url, async (dataSource) => ({
    where: await describe(url, dataSource),
    ...(await stateOf(dataSource)),
  }));
  const isPooled = DATABASE_POOLER !== undefined;
  const mayMigrate = DATABASE_URL === undefined || (MIGRATE_ON_START && !isPooled);
  if (mayMigrate && findings.some(({ about }) => about === 'migrations')) {
    await runMigrations(url);
    return;
  }
  // With others, it starts and is not ready, so that it is when they are repaired.
  const error = findings.find(
    ({ about, isError }) => isError && (about === 'schema' || about === 'migrations'),
  );
  if (error !== undefined) {
    const remedy = `\nApply them with npm run migration:run, ${isPooled ? 'without the pooler' : 'or start with MIGRATE_ON_START=true'}.`;
    const local =
      NODE_ENV === 'production' ? '' : ' To use the embedded PostgreSQL, unset DATABASE_URL.';
    throw new OperatorError(
      `${where}: ${error.message}${error.about === 'migrations' ? remedy : ''}${local}`,
    );
  }
}

/** Reverts a migration. @throws OperatorError, also if it is not the one that was applied last. */
export const revertMigration = (url: string, migration: Migration): Promise<void> =>
  administer(url, (dataSource) => execute(dataSource, migration, 'down'));
