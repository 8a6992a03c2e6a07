import type { DataSource } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
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

export async function run(): Promise<void> {
  await onCommandDatabase(async ({ dataSource, url }) => {
    const pending = await nextMigrations(dataSource);
    console.error(`Pending: ${pending.map(({ name }) => name).join(', ') || 'none'}.`);
    const applied = await runMigrations(url);
    print(applied.length === 0 ? 'Nothing is pending.' : `Applied ${applied.join(', ')}.`);
  });
}

export async function revert({ yes }: { yes?: true }): Promise<void> {
  await onCommandDatabase(async ({ dataSource, url }) => {
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

export async function show({ check }: { check?: true }): Promise<void> {
  await onCommandDatabase(async ({ dataSource }) => {
    for (const name of await appliedMigrations(dataSource)) {
      print(`[X] ${name}${MIGRATION_NAMES.includes(name) ? '' : '\tnot of this version'}`);
    }
    const pending = await nextMigrations(dataSource);
    pending.forEach(({ name }) => print(`[ ] ${name}`));
    process.exitCode = check && pending.length > 0 ? 1 : 0;
  });
}

export async function sql({ revert: isRevert }: { revert?: true }): Promise<void> {
  await onCommandDatabase(async ({ dataSource }) => {
    print((await scriptOf(dataSource, isRevert ? 'down' : 'up')).trimEnd());
  });
}
