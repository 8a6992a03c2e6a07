import { readdirSync } from 'node:fs';
import type { Migration } from './migration.js';

interface MigrationClass {
  /** The migration's `name`. */
  readonly name: string;
  new (): Migration;
}

/** The files of migrations, which begin with 13 digits that order them. */
const files = readdirSync(import.meta.dirname)
  .filter((file) => /^[0-9]{13}-.+(?<!\.d)\.[jt]s$/.test(file))
  .toSorted();

/** The class of every migration, oldest first. */
export const migrations: readonly MigrationClass[] = await Promise.all(
  files.map(async (file) => Object.values<MigrationClass>(await import(`./${file}`))[0]!),
);

/** Their names, as in the table `migrations`. */
export const MIGRATION_NAMES = migrations.map(({ name }) => name);
