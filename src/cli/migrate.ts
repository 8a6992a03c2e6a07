import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import type { DataSource } from 'typeorm';
import { MIGRATION_NAMES } from '../../migrations/index.js';
import { loadEnvironment } from '../config/environment.js';
import { APPLICATION_NAME } from '../database/data-source.js';
import { appliedMigrations, pendingMigrations } from '../schema/bookkeeping.js';
import { requireDirect, TRANSACTION, underLock } from '../schema/locks.js';
import { scriptOf } from '../schema/migration-script.js';
import {
  lastMigration,
  nextMigrations,
  revertMigration,
  runMigrations,
} from '../schema/migrations.js';
import { addCommand, onNamedDatabase } from './command.js';

/** Exit code of a revert that was not confirmed. */
const NOT_CONFIRMED = 2;

/** `animal-store migrate …`, and the npm scripts such as `npm run migration:run`. */
export function addMigrate(program: Command): void {
  const migrate = program
    .command('migrate')
    .description('apply, revert, list and print migrations');
  addCommand(migrate, 'run', 'apply the pending migrations', {
    0: 'nothing is pending any more',
    1: 'failed; prints what was applied before',
  }).action(run);
  addCommand(
    migrate,
    'revert',
    'revert the migration that was applied last; asks for confirmation first, on a terminal',
    {
      0: 'reverted, or none is applied',
      1: 'failed, and nothing was reverted',
      [NOT_CONFIRMED]: 'not confirmed, and nothing was reverted',
    },
  )
    .option('--yes', 'do not ask; required without a terminal')
    .action(revert);
  addCommand(
    migrate,
    'show',
    'list the migrations of this version and later ones; [X] marks the applied ones',
    { 0: 'listed', 1: 'failed, or with --check a migration is pending' },
  )
    .option('--check', 'end with exit code 1 if a migration is pending')
    .option('--json', 'print JSON')
    .action(show);
  addCommand(
    migrate,
    'sql',
    'print the SQL of the pending migrations as a script for psql; changes nothing',
    { 0: 'printed, also if there is nothing to do', 1: 'failed' },
  )
    .option('--revert', 'print the SQL that reverts the migration that was applied last')
    .action(sql);
}

async function run(): Promise<void> {
  const environment = loadEnvironment();
  await onNamedDatabase(environment, async (dataSource, url) => {
    await requireDirect(dataSource, environment.DATABASE_POOLER);
    const next = await nextMigrations(dataSource);
    console.error(`Applies ${next.map(({ name }) => name).join(', ') || 'nothing'}.`);
    const applied = await runMigrations(url);
    console.log(applied.length === 0 ? 'Nothing is pending.' : `Applied ${applied.join(', ')}.`);
  });
}

async function revert({ yes }: { yes?: true }): Promise<void> {
  const environment = loadEnvironment();
  await onNamedDatabase(environment, async (dataSource, url) => {
    await requireDirect(dataSource, environment.DATABASE_POOLER);
    const last = await lastMigration(dataSource);
    if (last === undefined) {
      console.error('Reverts nothing.');
      console.log('Nothing is applied.');
      return;
    }
    const running = await runningSessions(dataSource);
    const lost = await lossesOf(last.drops, dataSource);
    console.error(
      [
        `Reverts ${last.name}. ${lost.length === 0 ? 'This deletes no data.' : 'This permanently deletes:'}`,
        ...lost.map((loss) => `  ${loss}`),
        `Running service, ${last.isOptional ? 'which still serves pets' : 'whose readiness is then 503'}: ${running}.`,
      ].join('\n'),
    );
    if (yes || (await confirms())) {
      console.log(`Reverted ${await revertMigration(url, last)}.`);
    } else {
      console.error('Nothing was reverted. Confirm with yes on a terminal, or with --yes.');
      process.exitCode = NOT_CONFIRMED;
    }
  });
}

/** The sessions of running processes of the service, by role and client. A role may not see the address of others. */
async function runningSessions(dataSource: DataSource): Promise<string> {
  const [{ sessions }] = await dataSource.query(
    `select coalesce(string_agg(format('%s sessions of the role %s', count, usename) || coalesce(' from ' || host(client_addr), ''), '; '), 'none') as sessions
       from (select count(*), usename, client_addr from pg_stat_activity
              where application_name = $1 and datname = current_database() and pid <> pg_backend_pid()
              group by usename, client_addr) as clients`,
    [APPLICATION_NAME],
  );
  return sessions;
}

/** Counts what a revert deletes: the rows of tables, and the values of columns that are not null. */
function lossesOf(drops: readonly string[], dataSource: DataSource): Promise<string[]> {
  return underLock(dataSource, TRANSACTION, async (session) => {
    const losses: string[] = [];
    for (const dropped of drops) {
      const [table, column] = dropped.split('.');
      const [{ count }] = await session.query(`select count(${column ?? '*'}) from ${table}`);
      losses.push(
        column === undefined
          ? `the table ${table} (rows: ${count}) and the rights granted on it`
          : `the column ${dropped} (values: ${count})`,
      );
    }
    return losses;
  });
}

/** Asks on the terminal for confirmation. @returns whether it was given; false without a terminal. */
async function confirms(): Promise<boolean> {
  if (!process.stdin.isTTY) {
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new AbortController();
  terminal.once('close', () => closed.abort());
  try {
    const answer = await terminal.question('Type yes to revert it: ', { signal: closed.signal });
    return answer.trim() === 'yes';
  } catch {
    return false;
  } finally {
    terminal.close();
  }
}

async function show({ check, json }: { check?: true; json?: true }): Promise<void> {
  await onNamedDatabase(loadEnvironment(), async (dataSource) => {
    console.error('Lists its migrations and changes nothing.');
    const pending = await pendingMigrations(dataSource);
    const list = [
      ...(await appliedMigrations(dataSource)).map((it) => ({ ...it, isApplied: true })),
      ...pending.map((name) => ({ name, appliedAt: null, version: null, isApplied: false })),
    ]
      .map((it) => ({ ...it, isOfThisVersion: MIGRATION_NAMES.includes(it.name) }))
      .toSorted((a, b) => (a.name.slice(-13) < b.name.slice(-13) ? -1 : 1));
    if (json) {
      console.log(JSON.stringify(list, undefined, 2));
    } else {
      // Fields are separated by tabs.
      for (const { name, isApplied, appliedAt, version, isOfThisVersion } of list) {
        const applied = isApplied
          ? `\tapplied ${appliedAt?.toISOString() ?? 'at an unknown time'}`
          : '';
        const by = version === null ? '' : `\tby version ${version}`;
        const other = isOfThisVersion ? '' : '\tnot of this version';
        console.log(`[${isApplied ? 'X' : ' '}] ${name}${applied}${by}${other}`);
      }
    }
    process.exitCode = check && pending.length > 0 ? 1 : 0;
  });
}

async function sql({ revert: isRevert }: { revert?: true }): Promise<void> {
  await onNamedDatabase(loadEnvironment(), async (dataSource) => {
    console.error(
      `Prints the SQL that ${isRevert ? 'reverts the last migration' : 'applies the pending migrations'} and changes nothing.`,
    );
    process.stdout.write(await scriptOf(dataSource, isRevert ? 'down' : 'up'));
  });
}
