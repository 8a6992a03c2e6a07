import { MIGRATION_NAMES } from '../../migrations/index.js';
import { administer, type Database, onDatabase } from '../database/database.js';
import { revertMigration, runMigrations } from '../database/migrations.js';
import { pendingMigrations } from '../database/pending-migrations.js';
import { OperatorError } from '../errors/operator-error.js';
import { program, sayWhere } from './program.js';

/** `npm run migration:run`, `migration:revert` and `migration:show`. */
async function migrate(database: Database): Promise<void> {
  sayWhere(database);
  const { url } = database;
  switch (process.argv.slice(2).join(' ')) {
    case 'run': {
      const applied = await runMigrations(url);
      console.log(applied.length === 0 ? 'Nothing is pending.' : `Applied ${applied.join(', ')}.`);
      return;
    }
    case 'revert': {
      const reverted = await revertMigration(url);
      console.log(reverted === undefined ? 'Nothing is applied.' : `Reverted ${reverted}.`);
      return;
    }
    case 'show': {
      const pending = new Set(await administer(url, pendingMigrations));
      for (const name of MIGRATION_NAMES) {
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
