import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import type { DataSource } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { type Environment, loadEnvironment } from '../config/environment.js';
import { APPLICATION_NAME } from '../database/data-source.js';
import { administer } from '../database/database.js';
import {
  type AppliedMigration,
  appliedMigrations,
  pendingAfter,
  pendingMigrations,
} from '../schema/bookkeeping.js';
import { downScript, upScript } from '../schema/migration-script.js';
import {
  lastMigration,
  requireDirect,
  revertMigration,
  rowsLostWith,
  runMigrations,
} from '../schema/migrations.js';
import { requireOneSchema } from '../schema/schema-state.js';
import { describe, onCommandDatabase } from './command-database.js';
import { exitCodes } from './exit-codes.js';

/** Exit code of a revert that was not confirmed. */
const NOT_CONFIRMED = 2;

/** `animal-store migrate …`, and the npm scripts such as `npm run migration:run`. */
export function addMigrate(program: Command): void {
  const migrate = program
    .command('migrate')
    .description('apply, revert, list and print migrations');
  migrate
    .command('run')
    .description('apply the pending migrations')
    .addHelpText(
      'after',
      exitCodes({ 0: 'nothing is pending any more', 1: 'failed; prints what was applied before' }),
    )
    .action(() => onUrl(run));
  migrate
    .command('revert')
    .description(
      'revert the migration that was applied last; asks for confirmation first, on a terminal',
    )
    .option('--yes', 'do not ask; required without a terminal')
    .addHelpText(
      'after',
      exitCodes({
        0: 'reverted, or none is applied',
        1: 'failed, and nothing was reverted',
        [NOT_CONFIRMED]: 'not confirmed, and nothing was reverted',
      }),
    )
    .action(({ yes }: { yes?: true }) =>
      onUrl((url, environment) => revert(url, environment, yes)),
    );
  migrate
    .command('show')
    .description('list the migrations of this version and later ones; [X] marks the applied ones')
    .option('--check', 'end with exit code 1 if a migration is pending')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      exitCodes({ 0: 'listed', 1: 'failed, or with --check a migration is pending' }),
    )
    .action((options: ShowOptions) => onUrl((url) => show(url, options)));
  migrate
    .command('sql')
    .description('print the SQL of the pending migrations as a script for psql; changes nothing')
    .option('--revert', 'print the SQL that reverts the migration that was applied last')
    .addHelpText('after', exitCodes({ 0: 'printed, also if there is nothing to do', 1: 'failed' }))
    .action((options: { revert?: true }) => onUrl((url) => sql(url, options)));
}

interface ShowOptions {
  check?: true;
  json?: true;
}

async function onUrl(
  work: (url: string, environment: Environment) => Promise<void>,
): Promise<void> {
  const environment = loadEnvironment();
  await onCommandDatabase(environment, async (url) => {
    await work(url, environment);
  });
}

/** As {@link administer}, but first prints on standard error which database the command uses. */
async function onNamed<T>(url: string, work: (dataSource: DataSource) => Promise<T>): Promise<T> {
  return administer(url, async (dataSource) => {
    console.error(`${await describe(url, dataSource)}.`);
    return work(dataSource);
  });
}

async function run(url: string, { DATABASE_POOLER }: Environment): Promise<void> {
  await onNamed(url, async (dataSource) => {
    await requireDirect(dataSource, DATABASE_POOLER);
    await requireOneSchema(dataSource);
    const pending = await pendingMigrations(dataSource);
    console.error(`Applies ${pending.join(', ') || 'nothing'}.`);
  });
  const applied = await runMigrations(url);
  console.log(applied.length === 0 ? 'Nothing is pending.' : `Applied ${applied.join(', ')}.`);
}

async function revert(
  url: string,
  { DATABASE_POOLER }: Environment,
  isConfirmed = false,
): Promise<void> {
  const last = await onNamed(url, async (dataSource) => {
    await requireDirect(dataSource, DATABASE_POOLER);
    const migration = await lastMigration(dataSource);
    if (migration === undefined) {
      console.error('Reverts nothing.');
      return undefined;
    }
    const running = await runningSessions(dataSource);
    const lost = await rowsLostWith(migration, dataSource);
    const deletes = lost.size === 0 ? 'This deletes no data.' : 'This permanently deletes:';
    console.error(`Reverts ${migration.name}. ${deletes}`);
    lost.forEach((rows, dropped) =>
      console.error(
        dropped.includes('.')
          ? `  the column ${dropped} (values: ${rows})`
          : `  the table ${dropped} (rows: ${rows}) and the rights granted on it`,
      ),
    );
    const effect = migration.isOptional ? 'which still serves pets' : 'whose readiness is then 503';
    console.error(`Running service, ${effect}: ${running.join('; ') || 'none'}.`);
    return migration.name;
  });
  if (last === undefined) {
    console.log('Nothing is applied.');
    return;
  }
  if (!isConfirmed && !(await confirms())) {
    console.error('Nothing was reverted. Confirm with yes on a terminal, or with --yes.');
    process.exitCode = NOT_CONFIRMED;
    return;
  }
  console.log(`Reverted ${await revertMigration(url, last)}.`);
}

/** The sessions of running processes of the service, by role and client. A role may not see the address of others. */
async function runningSessions(dataSource: DataSource): Promise<string[]> {
  const rows = await dataSource.query<{ sessions: string }[]>(
    `select format('%s sessions of the role %s', count(*), usename) || coalesce(' from ' || host(client_addr), '')
              as sessions
       from pg_stat_activity
      where application_name = $1 and datname = current_database() and pid <> pg_backend_pid()
      group by usename, client_addr
      order by 1`,
    [APPLICATION_NAME],
  );
  return rows.map(({ sessions }) => sessions);
}

/** Asks on the terminal for confirmation. @returns whether it was given; false without a terminal. */
async function confirms(): Promise<boolean> {
  if (!process.stdin.isTTY) {
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await new Promise((resolve) => {
      terminal.once('close', () => resolve(false));
      terminal.question('Type yes to revert it: ', (answer) => resolve(answer.trim() === 'yes'));
    });
  } finally {
    terminal.close();
  }
}

async function show(url: string, { check, json }: ShowOptions): Promise<void> {
  const applied = await onNamed(url, async (dataSource) => {
    console.error('Lists its migrations and changes nothing.');
    return appliedMigrations(dataSource);
  });
  const pending = pendingAfter(applied);
  const list = [
    ...applied.map((it) => ({ ...it, isApplied: true })),
    ...pending.map((name) => ({ name, appliedAt: null, version: null, isApplied: false })),
  ]
    .map((it) => ({ ...it, isOfThisVersion: MIGRATION_NAMES.includes(it.name) }))
    .toSorted((a, b) => (a.name.slice(-13) < b.name.slice(-13) ? -1 : 1));
  if (json) {
    console.log(JSON.stringify(list, undefined, 2));
  } else {
    list.forEach((it) => console.log(lineOf(it)));
  }
  process.exitCode = check && pending.length > 0 ? 1 : 0;
}

/** One line, its fields separated by tabs. */
function lineOf({
  name,
  isApplied,
  appliedAt,
  version,
  isOfThisVersion,
}: AppliedMigration & { isApplied: boolean; isOfThisVersion: boolean }): string {
  const fields = [
    `[${isApplied ? 'X' : ' '}] ${name}`,
    !isApplied ? [] : `applied ${appliedAt?.toISOString() ?? 'at an unknown time'}`,
    version === null ? [] : `by version ${version}`,
    isOfThisVersion ? [] : 'not of this version',
  ];
  return fields.flat().join('\t');
}

async function sql(url: string, { revert: isRevert }: { revert?: true }): Promise<void> {
  await onNamed(url, async (dataSource) => {
    console.error(
      `Prints the SQL that ${isRevert ? 'reverts the last migration' : 'applies the pending migrations'} and changes nothing.`,
    );
    process.stdout.write(await (isRevert ? downScript : upScript)(dataSource));
  });
}
