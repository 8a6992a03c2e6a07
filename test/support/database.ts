import { randomBytes } from 'node:crypto';
import { administer } from '../../src/database/connect.js';
import { lastMigration, revertMigration, runMigrations } from '../../src/schema/migrations.js';
import { ask } from './ask.js';
import { createExtension, isOnCitus, workersOf } from './citus.js';
import { until } from './until.js';

/** Of a database on the tests' server, whose role may create databases and roles. */
const serverUrl = () => process.env['TEST_DATABASE_URL']!;

/** Runs a statement on the server's own database. */
export async function onServer(sql: string): Promise<void> {
  await ask(serverUrl(), sql);
}

/** @returns the URL of a new, empty database, at another address of the server if one is given. Its workers have one too. */
export async function createDatabase(
  address = serverUrl(),
  template = 'template1',
): Promise<string> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  for (const server of [serverUrl(), ...(await workersOf(serverUrl()))]) {
    await ask(server, `create database ${name} template ${template}`);
  }
  return Object.assign(new URL(address), { pathname: `/${name}` }).href;
}

/**
 * @returns the URL of a new database with all migrations, as {@link createDatabase}. On Citus, its tables are distributed.
 * Rejects if a migration fails.
 */
export async function createMigratedDatabase(address?: string): Promise<string> {
  const template = process.env['TEST_TEMPLATE'];
  const url = await createDatabase(address, template);
  if (isOnCitus()) {
    await createExtension(url);
  }
  if (template === undefined) {
    await runMigrations(url);
  }
  return url;
}

/** @returns the URL of a new database with all migrations, which has no extension, also on the coordinator of Citus. */
export async function createLocalDatabase(): Promise<string> {
  if (!isOnCitus()) {
    return createMigratedDatabase();
  }
  const url = await createDatabase();
  await runMigrations(url);
  return url;
}

/** Reverts the migration that was applied last. @returns its name. */
export async function revertLast(url: string): Promise<string> {
  const last = (await administer(url, lastMigration))!;
  await revertMigration(url, last);
  return last.name;
}

/** Before all tests: the database that {@link createMigratedDatabase} copies, and how. On Citus, a copy would lack shards. */
export async function createTemplate(): Promise<string | undefined> {
  if (isOnCitus()) {
    return undefined;
  }
  const url = await createDatabase();
  try {
    await runMigrations(url);
  } catch {
    // The tests of migrations, and those that need a migrated database, fail with the error.
    return url;
  }
  const { server_version_num: version } = await ask(url, 'show server_version_num');
  // The other strategy, the default, writes each page to the log too.
  const strategy = Number(version) < 150_000 ? '' : ' strategy file_copy';
  process.env['TEST_TEMPLATE'] = new URL(url).pathname.slice(1) + strategy;
  return url;
}

export async function dropDatabase(url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  for (const server of [serverUrl(), ...(await workersOf(serverUrl()))]) {
    const drop = () =>
      ask(server, `drop database if exists ${name} with (force)`).then(
        () => true,
        (error: { code?: string }) => {
          // A daemon of Citus has just connected.
          if (error.code === '55006' && isOnCitus()) {
            return false;
          }
          throw error;
        },
      );
    await until('the database is dropped', drop);
  }
}
