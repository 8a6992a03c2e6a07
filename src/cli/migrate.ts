import type { DataSource } from 'typeorm';
import {
  knownMigrations,
  pendingMigrations,
  revertMigration,
  runMigrations,
} from '../database/migrations.js';
import { OperatorError } from '../errors/operator-error.js';
import { onDatabase, program } from './program.js';

/** `npm run migration:run`, `migration:revert` and `migration:show`. */
async function migrate(dataSource: DataSource): Promise<void> {
  switch (process.argv.slice(2).join(' ')) {
    case 'run': {
      const applied = await runMigrations(dataSource);
      console.log(applied.length === 0 ? 'Nothing is pending.' : `Applied ${applied.join(', ')}.`);
      return;
    }
    case 'revert': {
      const reverted = await revertMigration(dataSource);
      console.log(reverted === undefined ? 'Nothing is applied.' : `Reverted ${reverted}.`);
      return;
    }
    case 'show': {
      const pending = new Set(await pendingMigrations(dataSource));
      for (const name of knownMigrations(dataSource)) {
        console.log(`[${pending.has(name) ? ' ' : 'X'}] ${name}`);
      }
      return;
    }
    default:
      throw new OperatorError(
        'Usage: npm run migration:run, migration:revert or migration:show, without arguments.',
      );
  }
}

await program((environment) => onDatabase(environment, migrate));
