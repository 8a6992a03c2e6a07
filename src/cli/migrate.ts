import type { Command } from 'commander';
import type { DataSource } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { loadEnvironment } from '../config/environment.js';
import { appliedMigrations } from '../schema/schema-state.js';
import { scriptOf } from '../schema/migration-script.js';
import {
  lastMigration,
  nextMigrations,
  revertMigration,
  runMigrations,
} from '../schema/migrations.js';
import { onCommandDatabase } from './command.js';
import { print } from './print.js';

export function addMigrate(program: Command): void {
  const migrate = program.command('migrate').description('apply, revert, list or print migrations');
  migrate.command('run').description('apply the pending migrations').action(run);
  migrate
    .command('revert')
    .description('print what reverting the migration that was applied last would delete')
    .option('--yes', 'revert it')
    .action(revert);
  migrate
    .command('show')
    .description('list the migrations of this version and later ones; [X] marks the applied ones')
    .option('--check', 'end with exit code 1 if a migration is pending')
    .action(show);
  migrate
    .command('sql')
    .description('print the SQL of the pending migrations as a script for psql; changes nothing')
    .option('--revert', 'print the SQL that reverts the migration that was applied last')
    .action(sql);
}

async function run(): Promise<void> {
  await onCommandDatabase(loadEnvironment(), async (dataSource, url) => {
    const pending = await nextMigrations(dataSource);
    console.error(`Pending: ${pending.map(({ name }) => name).join(', ') || 'none'}.`);
    const applied = await runMigrations(url);
    print(applied.length === 0 ? 'Nothing is pending.' : `Applied ${applied.join(', ')}.`);
  });
}

async function revert({ yes }: { yes?: true }): Promise<void> {
  await onCommandDatabase(loadEnvironment(), async (dataSource, url) => {
    const last = await lastMigration(dataSource);
    if (last === undefined) {
      print('Nothing is applied.');
      return;
    }
    const lost = await lossesOf(last.drops, dataSource);
    console.error(
      [
        `Reverts ${last.name}. ${lost.length === 0 ? 'This deletes no data.' : 'This permanently deletes:'}`,
        ...lost.map((loss) => `  ${loss}`),
        `A running service ${last.isOptional ? 'still serves pets' : 'is then not ready, and fails'}.`,
      ].join('\n'),
    );
    if (yes) {
      await revertMigration(url, last);
      print(`Reverted ${last.name}.`);
    } else {
      console.error('Nothing was reverted. To revert it, add --yes.');
      process.exitCode = 2;
    }
  });
}

/** Counts what a revert deletes: the rows of tables, and the values of columns that are not null. */
async function lossesOf(drops: readonly string[], dataSource: DataSource): Promise<string[]> {
  const losses: string[] = [];
  for (const dropped of drops) {
    const [table, column] = dropped.split('.');
    const sql = `select count(${column ?? '*'}) from ${table}`;
    const [{ count }] = await dataSource.query<[{ count: string }]>(sql);
    losses.push(
      column === undefined
        ? `the table ${table} (rows: ${count}) and the rights granted on it`
        : `the column ${dropped} (values: ${count})`,
    );
  }
  return losses;
}

async function show({ check }: { check?: true }): Promise<void> {
  await onCommandDatabase(loadEnvironment(), async (dataSource) => {
    for (const name of await appliedMigrations(dataSource)) {
      print(`[X] ${name}${MIGRATION_NAMES.includes(name) ? '' : '\tnot of this version'}`);
    }
    const pending = await nextMigrations(dataSource);
    pending.forEach(({ name }) => print(`[ ] ${name}`));
    process.exitCode = check && pending.length > 0 ? 1 : 0;
  });
}

async function sql({ revert: isRevert }: { revert?: true }): Promise<void> {
  await onCommandDatabase(loadEnvironment(), async (dataSource) => {
    print((await scriptOf(dataSource, isRevert ? 'down' : 'up')).trimEnd());
  });
}
