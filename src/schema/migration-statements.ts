import { migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import { BOOKKEEPING } from './schema-state.js';

/** The advisory lock under which migrations run (PostgreSQL, section 13.3.5). The number must never change. Requests lock pairs of integers, which are in another space. */
export const MIGRATION_LOCK = 7_236_102_511;

/** SQLSTATE of {@link statementsOf} if another session migrates. Nothing was changed. */
export const BUSY = 'MG001';

/** SQLSTATE of {@link statementsOf} if the migration was applied or reverted meanwhile. Nothing was changed. */
export const OUTDATED = 'MG002';

const RESET = [
  'reset statement_timeout',
  'reset lock_timeout',
  `do $$ begin perform pg_advisory_unlock(${MIGRATION_LOCK}); end $$`,
];

/** Ends a migration that failed, in a transaction or not, so that its session can be used again. */
export const UNDO = ['rollback', ...RESET];

/** Requests queue behind a migration that waits for their table, and fail after 1.5 s. It may wait for two tables. */
const TRANSACTION = {
  open: [
    'begin isolation level read committed',
    // On Citus, the nodes get the settings too. PostgreSQL ignores it.
    `set local citus.propagate_set_commands = 'local'`,
    'set local statement_timeout = 0',
    `set local lock_timeout = '300ms'`,
  ],
  lock: 'pg_try_advisory_xact_lock',
  close: ['commit'],
};

/** `create index concurrently` waits for every transaction that uses its table, but blocks none. */
const NO_TRANSACTION = {
  open: ['set statement_timeout = 0', `set lock_timeout = '10min'`],
  lock: 'pg_try_advisory_lock',
  close: RESET,
};

/**
 * All statements that apply or revert a migration, and record it: `migrate run` and `revert` run them, and `migrate sql`
 * prints them. They do not wait for the advisory lock, because a `create index concurrently` of another session would wait
 * for the snapshot of a statement that does. The index that an interrupted attempt left is dropped first.
 */
export async function statementsOf(migration: Migration, way: 'up' | 'down'): Promise<string[]> {
  const { name, transaction } = migration;
  const { open, lock, close } = transaction === false ? NO_TRANSACTION : TRANSACTION;
  const isUp = way === 'up';
  const isNext = isUp
    ? `not exists (select from migrations where name = '${name}')`
    : `'${name}' in (select name from migrations order by id desc limit 1)`;
  const record = isUp
    ? `insert into migrations (timestamp, name) values (${name.slice(-13)}, '${name}')`
    : `delete from migrations where name = '${name}'`;
  const statements = [
    ...open,
    unless(`${lock}(${MIGRATION_LOCK})`, `'Another session migrates this database.'`, BUSY),
    ...(isUp && migration === migrations[0] ? [BOOKKEEPING] : []),
    unless(isNext, `'Nothing was changed: other migrations are applied than before.'`, OUTDATED),
  ];
  const query = async (sql: string) => {
    const [, index] = CREATE_CONCURRENTLY.exec(sql) ?? [];
    statements.push(...(index ? [`drop index concurrently if exists ${index}`] : []), sql.trim());
  };
  await migration[way]({ query });
  return [...statements, record, ...close];
}

const CREATE_CONCURRENTLY =
  /^\s*create\s+(?:unique\s+)?index\s+concurrently\s+(?:if\s+not\s+exists\s+)?("[^"]+"|\w+)/i;

/** @param message as a literal of SQL. */
export const unless = (condition: string, message: string, state = 'P0001') =>
  `do $$ begin if not ${condition} then raise using message = ${message}, errcode = '${state}'; end if; end $$`;
