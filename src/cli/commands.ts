import { type Command, InvalidArgumentError } from 'commander';
import { INT64_MAX } from '../int64.js';

/** Adds the commands. Each loads what it needs when it runs: all of it takes more than a second of CPU time. */
export function addCommands(program: Command): void {
  program
    .command('serve')
    .description('run the service until a signal stops it')
    .action(async () => (await import('./serve.js')).serve());
  program
    .command('check')
    .description('check the configuration, the database, its migrations and the rights of its role')
    .option('--json', 'print JSON')
    .option('--write', 'also create a pet and roll it back; this uses an id up')
    .action(async (options) => (await import('./check.js')).check(options));

  const migrate = program.command('migrate').description('apply, revert, list or print migrations');
  migrate
    .command('run')
    .description('apply the pending migrations')
    .action(async () => (await import('./migrate.js')).run());
  migrate
    .command('revert')
    .description('print what reverting the migration that was applied last would delete')
    .option('--yes', 'revert it')
    .action(async (options) => (await import('./migrate.js')).revert(options));
  migrate
    .command('show')
    .description('list the migrations of this version and later ones; [X] marks the applied ones')
    .option('--check', 'end with exit code 1 if a migration is pending')
    .action(async (options) => (await import('./migrate.js')).show(options));
  migrate
    .command('sql')
    .description('print the SQL of the pending migrations as a script for psql; changes nothing')
    .option('--revert', 'print the SQL that reverts the migration that was applied last')
    .action(async (options) => (await import('./migrate.js')).sql(options));

  const keys = program.command('keys').description('create, list, revoke and admit API keys');
  keys
    .command('create')
    .description('create a key and print it; it cannot be shown again')
    .requiredOption(...NAME)
    .option('--expires <duration>', 'such as 90d; units: s, m, h, d', millisecondsOf)
    .action(async (options) => (await import('./keys.js')).create(options));
  keys
    .command('list')
    .description('list all keys, but not their secret text; fields are separated by tabs')
    .action(async () => (await import('./keys.js')).list());
  keys
    .command('revoke')
    .description('end the validity of a key; every process rejects it within 5 seconds')
    .argument('<id>', 'the number that list shows', idOf)
    .action(async (id) => (await import('./keys.js')).revoke(id));
  keys
    .command('admit')
    .description('make the key in LOCAL_API_KEY valid')
    .requiredOption(...NAME)
    .action(async (options) => (await import('./keys.js')).admit(options));

  program
    .command('seed')
    .description('create pets for development and tests')
    .argument('<count>', `how many: 1 to ${MOST}`, countOf)
    .option('--yes', 'create them even if NODE_ENV is production')
    .action(async (count, options) => (await import('./seed.js')).seed(count, options));
}

const NAME = ['--name <name>', 'whose key it is: 1 to 100 characters', nameOf] as const;

function nameOf(text: string): string {
  if (text.trim() === '' || [...text].length > 100 || text.includes('\0')) {
    throw new InvalidArgumentError('It must have 1 to 100 characters.');
  }
  // Commander takes the next option for the value of one without a value.
  if (text.startsWith('-')) {
    throw new InvalidArgumentError('It must not begin with a hyphen.');
  }
  return text;
}

function idOf(text: string): string {
  if (!/^[0-9]{1,19}$/.test(text) || BigInt(text) > INT64_MAX) {
    throw new InvalidArgumentError('It must be the number that list shows.');
  }
  return text;
}

const UNITS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function millisecondsOf(duration: string): number {
  const [, count, unit] = /^([1-9][0-9]{0,6})([smhd])$/.exec(duration) ?? [];
  if (count === undefined) {
    throw new InvalidArgumentError('It must be a number of s, m, h or d, such as 90d.');
  }
  return Number(count) * UNITS[unit!]!;
}

const MOST = 100_000_000;

function countOf(text: string): number {
  const count = /^[1-9][0-9]{0,8}$/.test(text) ? Number(text) : Infinity;
  if (count > MOST) {
    throw new InvalidArgumentError(`It must be a whole number from 1 to ${MOST}.`);
  }
  return count;
}
