import { readdirSync } from 'node:fs';
import type { Migration } from './migration.js';

/** The files of migrations, which begin with 13 digits that order them. */
const files = readdirSync(import.meta.dirname)
  .filter((file) => /^[0-9]{13}-.+(?<!\.d)\.[jt]s$/.test(file))
  .toSorted();

/** Every migration, oldest first. */
export const migrations: readonly Migration[] = await Promise.all(
  files.map(
    async (file) => new (Object.values<new () => Migration>(await import(`./${file}`))[0]!)(),
  ),
);

/** Their names, as in the table `migrations`. */
export const MIGRATION_NAMES = migrations.map(({ name }) => name);
