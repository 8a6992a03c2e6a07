import type { DataSource } from 'typeorm';
import { migrations } from '../../migrations/index.js';
import type { Migration } from '../../migrations/migration.js';
import { VERSION } from '../config/project-root.js';
import { missingBookkeeping, pendingMigrations } from './bookkeeping.js';
import { PATIENCE, TABLE_LOCK } from './locks.js';
import { lastMigration, MIGRATION_LOCK } from './migrations.js';
import { requireOneSchema } from './schema-state.js';

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
  const parts: Part[] = [];
  for (const [i, migration] of pending.entries()) {
    const isOutside = migration.transaction === false;
    if (parts.at(-1)?.isOutside !== isOutside) {
      parts.push({ isOutside, names: [], applied: 0, steps: [] });
    }
    const part = parts.at(-1)!;
    part.names.push(migration.name);
    part.steps.push(
      comment(
        `${i + 1} of ${pending.length}: ${migration.name}`,
        `Purpose: ${migration.purpose}`,
        ...effectsOf(migration, 'up'),
        `Can be reverted: yes. That drops, with all data and grants: ${migration.drops.join(', ') || 'nothing'}.`,
      ),
      ...(await statementsOf((session) => migration.up(session))),
      `insert into migrations (timestamp, name, version) values (${timestampOf(migration)}, '${migration.name}', '${VERSION}')`,
    );
  }
  return script(`Applies ${names.join(', ')}.`, parts, await missingBookkeeping(dataSource));
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
  const { name, purpose, drops } = migration;
  const steps = [
    comment(
      `Down migration of ${name}`,
      `Its purpose was: ${purpose}`,
      ...effectsOf(migration, 'down'),
      `Drops, with all data and grants: ${drops.join(', ') || 'nothing'}.`,
    ),
    ...(await statementsOf((session) => migration.down(session))),
    `delete from migrations where timestamp = ${timestampOf(migration)} and name = '${name}'`,
  ];
  const isOutside = migration.transaction === false;
  return script(`Reverts ${name}.`, [{ isOutside, names: [name], applied: 1, steps }]);
}

/** A part of the script: migrations in one transaction, or outside a transaction. */
interface Part {
  isOutside: boolean;
  names: string[];
  /** How many of them must be applied already. */
  applied: number;
  /** Statements, and comments. */
  steps: string[];
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

function script(summary: string, parts: Part[], bookkeeping: string[] = []): string {
  const isOne = parts.length === 1 && !parts[0]!.isOutside;
  return [
    comment(
      `${summary} Printed by animal-store ${VERSION}.`,
      `Run it with psql as the owner of the tables. ${
        isOne
          ? 'It is one transaction: after an error nothing is changed.'
          : 'It is not a single transaction: after an error, completed steps stay applied. Then print the script again.'
      }`,
    ),
    '\\set ON_ERROR_STOP on',
    ...parts.flatMap((part, i) => partOf(part, i === 0 ? bookkeeping : [])),
    '',
  ].join('\n');
}

function partOf({ isOutside, names, applied, steps }: Part, bookkeeping: string[]): string[] {
  const set = isOutside ? 'set' : 'set local';
  const timeout = isOutside ? PATIENCE : TABLE_LOCK.timeout;
  return [
    isOutside ? `\n${comment('Outside a transaction.')}` : 'begin isolation level read committed;',
    comment(
      'These override the limits of the role: no time limit, but an error if a table is locked.',
    ),
    `${set} statement_timeout = 0;`,
    `${set} lock_timeout = '${timeout}ms';`,
    `${ifNot(
      `pg_try_advisory_${isOutside ? '' : 'xact_'}lock(${MIGRATION_LOCK})`,
      'Another session migrates this database; run the script again when it has ended.',
    )};`,
    ...[...bookkeeping, onlyIf(names, applied), ...steps].map((step) =>
      step.startsWith('--') ? `\n${step}` : `${step};`,
    ),
    '',
    ...(isOutside
      ? [
          'reset statement_timeout;',
          'reset lock_timeout;',
          `do $$ begin perform pg_advisory_unlock(${MIGRATION_LOCK}); end $$;`,
        ]
      : ['commit;']),
  ];
}

/**
 * Raises an error unless `count` of these migrations are applied. The database may have changed since the script was
 * printed.
 */
function onlyIf(names: string[], count: number): string {
  const list = names.map((name) => `'${name}'`).join(', ');
  return ifNot(
    `(select count(*) from migrations where name in (${list})) = ${count}`,
    'The migrations have changed since this script was printed; print it again.',
  );
}

const ifNot = (condition: string, message: string) => `do $$ begin
  if not ${condition} then
    raise exception '${message}';
  end if;
end $$`;

function effectsOf({ locks, rewrites = {}, transaction }: Migration, way: 'up' | 'down'): string[] {
  const entries = Object.entries(locks[way]).map(([table, mode]) => `${mode} on ${table}`);
  const tables = rewrites[way] ?? [];
  return [
    transaction === false
      ? 'Locks: none that blocks reads or writes.'
      : `Locks until the end: ${entries.join(', ') || 'none on tables that exist'}.`,
    tables.length === 0 ? [] : `Rewrites all rows of: ${tables.join(', ')}.`,
  ].flat();
}

const comment = (...lines: string[]) => lines.map((line) => `-- ${line}`).join('\n');

const timestampOf = ({ name }: Migration) => name.slice(-13);

/** `sql` without the indentation of the source file. */
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
