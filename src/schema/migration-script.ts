import type { DataSource } from 'typeorm';
import type { Migration, TableLocks } from '../../migrations/migration.js';
import { VERSION } from '../config/project-root.js';
import { statementsOf, unless } from './migration-statements.js';
import { lastMigration, nextMigrations } from './migrations.js';

/** The SQL that `migrate run` or `migrate revert` would run now, as a script for psql. Nothing is changed. */
export async function scriptOf(dataSource: DataSource, way: 'up' | 'down'): Promise<string> {
  const all =
    way === 'up'
      ? await nextMigrations(dataSource)
      : [(await lastMigration(dataSource)) ?? []].flat();
  if (all.length === 0) {
    return `-- No migration is ${way === 'up' ? 'pending' : 'applied'}.\n`;
  }
  const names = all.map(({ name }) => name).join(', ');
  type Row = { isRight: string; message: string };
  const [{ isRight, message }] = await dataSource.query<[Row]>(RIGHT_ROLE);
  const parts = [
    comment(
      `${way === 'up' ? 'Applies' : 'Reverts'} ${names}. Printed by animal-store ${VERSION}.`,
      'Run it with psql as the owner of the tables. It has no time limit, but ends with an error if a table is locked.',
      'After an error, the migrations before it stay applied. Then print the script again.',
    ),
    '\\set ON_ERROR_STOP on',
    `${unless(isRight, message)};\n`,
  ];
  for (const [i, migration] of all.entries()) {
    const title = way === 'up' ? `${i + 1} of ${all.length}: ` : 'Down migration of ';
    const about = comment(title + migration.name, ...effectsOf(migration, way));
    const statements = await statementsOf(migration, way);
    parts.push(about, ...statements.map((statement) => `${statement};`), '');
  }
  return parts.join('\n');
}

/** The role that must run the script, because it owns what the script creates: the owner of the tables, if there are any. */
const RIGHT_ROLE = `
  select format('(current_user, current_schema()) = (%L, %L)', role, current_schema()) as "isRight",
         quote_literal(format('Run this script as the role %I, with the schema %I.', role, current_schema()) ||
                       coalesce(' Log in as ' || members || format(', and first run: set role %I;', role), '')) as message
    from (select coalesce((select tableowner from pg_tables where schemaname = current_schema() and tablename = 'migrations'),
                          current_user) as role) as owner,
         lateral (select string_agg(quote_ident(rolname), ' or ') as members from pg_roles
                   where rolcanlogin and not rolsuper and pg_has_role(rolname, role, 'member')) as login`;

function effectsOf(migration: Migration, way: 'up' | 'down'): string[] {
  const { purpose, locks, locksOnCitus, rewrites = {}, drops } = migration;
  const tables = rewrites[way] ?? [];
  return [
    `Purpose: ${purpose}`,
    migration.transaction === false
      ? 'Outside a transaction. Locks: none that blocks reads or writes.'
      : `Locks until the end: ${listOf(locks[way])}.`,
    locksOnCitus === undefined
      ? []
      : `On Citus, locks until the end: ${listOf(locksOnCitus[way])}.`,
    tables.length === 0 ? [] : `Rewrites all rows of: ${tables.join(', ')}.`,
    `${way === 'up' ? 'A revert drops' : 'Drops'}, with all data and grants: ${drops.join(', ') || 'nothing'}.`,
  ].flat();
}

const listOf = (locks: TableLocks) =>
  Object.entries(locks)
    .map(([table, mode]) => `${mode} on ${table}`)
    .join(', ') || 'none on tables that exist';

const comment = (...lines: string[]) => lines.map((line) => `-- ${line}`).join('\n');
