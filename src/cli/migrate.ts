import type { Command } from 'commander';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { loadEnvironment } from '../config/environment.js';
import { administer, onDatabase } from '../database/database.js';
import { revertMigration, runMigrations } from '../database/migrations.js';
import { pendingMigrations } from '../database/pending-migrations.js';
import { exitCodes } from './exit-codes.js';
import { sayIfEmbedded } from './where.js';

/** `animal-store migrate …`, and so `npm run migration:run` and its like. */
export function addMigrate(program: Command): void {
  const migrate = program.command('migrate').description('apply, revert and list migrations');
  migrate
    .command('run')
    .description('apply the pending migrations in one transaction')
    .addHelpText('after', exitCodes({ 0: 'nothing is pending any more', 1: 'nothing was applied' }))
    .action(() => onUrl(run));
  migrate
    .command('revert')
    .description('revert the migration that was applied last')
    .addHelpText(
      'after',
      exitCodes({ 0: 'reverted, or none is applied', 1: 'nothing was reverted' }),
    )
    .action(() => onUrl(revert));
  migrate
    .command('show')
    .description('list the migrations of this version; [X] marks the applied ones')
    .option('--json', 'print JSON')
    .addHelpText('after', exitCodes({ 0: 'listed', 1: 'failed' }))
    .action(({ json }: { json?: true }) => onUrl((url) => show(url, json)));
}

async function onUrl(work: (url: string) => Promise<void>): Promise<void> {
  await onDatabase(loadEnvironment(), async (database) => {
    sayIfEmbedded(database);
    await work(database.url);
  });
}

async function run(url: string): Promise<void> {
  const applied = await runMigrations(url);
  console.log(applied.length === 0 ? 'Nothing is pending.' : `Applied ${applied.join(', ')}.`);
}

async function revert(url: string): Promise<void> {
  const reverted = await revertMigration(url);
  console.log(reverted === undefined ? 'Nothing is applied.' : `Reverted ${reverted}.`);
}

async function show(url: string, json = false): Promise<void> {
  const pending = new Set(await administer(url, pendingMigrations));
  const list = MIGRATION_NAMES.map((name) => ({ name, isApplied: !pending.has(name) }));
  if (json) {
    console.log(JSON.stringify(list, undefined, 2));
    return;
  }
  for (const { name, isApplied } of list) {
    console.log(`[${isApplied ? 'X' : ' '}] ${name}`);
  }
}
