import type { DataSource } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import type { Migration, TableLocks } from '../../migrations/migration.js';
import { VERSION } from '../config/project-root.js';
import { missingBookkeeping } from './bookkeeping.js';
import { lastMigration, MIGRATION_LOCK, requireOneSchema, TABLE_LOCK } from './migrations.js';
import { pendingMigrations } from './pending-migrations.js';

/**
 * The SQL that `migrate run` would run now, as a script for psql. Nothing is changed.
 *
 * @throws OperatorError as {@link requireOneSchema}.
 */
export async function upScript(dataSource: DataSource): Promise<string> {
  await requireOneSchema(dataSource);
  const names = await pendingMigrations(dataSource);
  const pending = migrations.filter(({ name }) => names.includes(name)).map((Each) => new Each());
  if (pending.length === 0) {
    return '-- No migration is pending.\n';
  }
  const bookkeeping = await missingBookkeeping(dataSource);
  const steps = await Promise.all(
    pending.map(async (migration, i) => [
      comment(
        `${i + 1} of ${pending.length}: ${migration.name}`,
        `Purpose: ${migration.purpose}`,
        `Locks until the end: ${locksOf(migration.locks.up)}`,
        `Can be reverted: yes. That drops, with all rows and grants: ${migration.drops.join(', ') || 'nothing'}.`,
      ),
      ...(await statementsOf((session) => migration.up(session))),
      `insert into migrations (timestamp, name, version) values (${timestampOf(migration)}, '${migration.name}', '${VERSION}')`,
    ]),
  );
  return script(`Applies ${names.join(', ')}.`, [
    ...bookkeeping,
    onlyIf(names, 0),
    ...steps.flat(),
  ]);
}

/**
 * The SQL that `migrate revert` would run now, as a script for psql. Nothing is changed.
 *
 * @throws OperatorError as {@link lastMigration}.
 */
export async function downScript(dataSource: DataSource): Promise<string> {
  const migration = await lastMigration(dataSource);
  if (migration === undefined) {
    return '-- No migration is applied.\n';
  }
  const { name, purpose, locks, drops } = migration;
  return script(`Reverts ${name}.`, [
    onlyIf([name], 1),
    comment(
      `Down migration of ${name}`,
      `Its purpose was: ${purpose}`,
      `Locks until the end: ${locksOf(locks.down)}`,
      `Drops, with all rows and grants: ${drops.join(', ') || 'nothing'}.`,
    ),
    ...(await statementsOf((session) => migration.down(session))),
    `delete from migrations where timestamp = ${timestampOf(migration)} and name = '${name}'`,
  ]);
}

/** The statements that a migration would run. */
async function statementsOf(
  direction: (session: { query(sql: string): Promise<unknown> }) => Promise<void>,
): Promise<string[]> {
  const statements: string[] = [];
  await direction({
    query: async (sql) => {
      statements.push(withoutIndent(sql));
    },
  });
  return statements;
}

function script(summary: string, steps: string[]): string {
  return [
    comment(
      `${summary} Printed by animal-store ${VERSION}.`,
      'Run it with psql as the owner of the tables. It is one transaction: after an error nothing is changed.',
    ),
    '\\set ON_ERROR_STOP on',
    'begin isolation level read committed;',
    comment('Wait for other migrations, whatever limit the role has.'),
    'set local statement_timeout = 0;',
    `do $$ begin perform pg_advisory_xact_lock(${MIGRATION_LOCK}); end $$;`,
    comment(
      'Give up if a table is locked: requests wait behind this transaction. Run the script again then.',
    ),
    `set local lock_timeout = '${TABLE_LOCK.timeout}ms';`,
    ...steps.map((step) => (step.startsWith('--') ? `\n${step}` : `${step};`)),
    '',
    'commit;',
    '',
  ].join('\n');
}

/** Raises an error unless the database has `count` of these migrations: it may have changed since the script was printed. */
function onlyIf(names: string[], count: number): string {
  const list = names.map((name) => `'${name}'`).join(', ');
  return `do $$ begin
  if (select count(*) from migrations where name in (${list})) <> ${count} then
    raise exception 'The migrations have changed since this script was printed; print it again.';
  end if;
end $$`;
}

function locksOf(locks: TableLocks): string {
  const entries = Object.entries(locks).map(([table, mode]) => `${mode} on ${table}`);
  return `${entries.join(', ') || 'none on tables that exist'}.`;
}

const comment = (...lines: string[]) => lines.map((line) => `-- ${line}`).join('\n');

const timestampOf = ({ name }: Migration) => name.slice(-13);

/** `sql` without the indent of the source that holds it. */
export function withoutIndent(sql: string): string {
  const lines = sql
    .replace(/^\s*\n/, '')
    .trimEnd()
    .split('\n');
  const indent = Math.min(
    ...lines.filter((line) => line.trim() !== '').map((line) => line.search(/\S/)),
  );
  return lines.map((line) => line.slice(indent)).join('\n');
}
