import { writeSync } from 'node:fs';
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import { isApiKey } from '../api-key.js';
import type { ApiKey } from '../auth/api-key.entity.js';
import { administerKeys, type ApiKeys } from '../auth/api-keys.js';
import { loadEnvironment, secretOf } from '../config/environment.js';
import { requireMigrated } from '../schema/migrations.js';
import { OperatorError } from '../errors/operator-error.js';
import { INT64_MAX } from '../int64.js';
import { exitCodes, onCommandDatabase } from './command.js';

const NAME = new Option('--name <name>', 'whose key it is: 1 to 100 characters')
  .argParser(nameOf)
  .makeOptionMandatory();
const EXPIRES = new Option(
  '--expires <duration>',
  'a number of s, m, h or d, such as 90d',
).argParser(millisecondsOf);
const OVERLAP = new Option('--overlap <duration>', 'for how long both are valid, such as 24h')
  .argParser(millisecondsOf)
  .makeOptionMandatory();
const ID = new Argument('<id>', 'the number that list shows').argParser(idOf);

/** Adds `animal-store keys …`, which `npm run keys` runs. */
export function addKeys(program: Command): void {
  const keys = program
    .command('keys')
    .description('create, list, revoke, rotate and admit API keys');
  keys
    .command('create')
    .description('create a key and print it; it cannot be shown again')
    .addOption(NAME)
    .addOption(EXPIRES)
    .addHelpText('after', exitCodes({ 0: 'created', 1: 'no valid key was created' }))
    .action(onKeys(create));
  keys
    .command('list')
    .description('list all keys, but not their secret text')
    .option('--json', 'print JSON')
    .addHelpText('after', exitCodes({ 0: 'listed', 1: 'failed' }))
    .action(onKeys(list));
  keys
    .command('revoke')
    .description('end the validity of a key; every process rejects it within 5 seconds')
    .addArgument(ID)
    .addHelpText('after', exitCodes({ 0: 'revoked', 1: 'there is no such valid key, or failed' }))
    .action(onKeys(revoke));
  const unchanged = 'there is no such valid key, or failed: the old key is unchanged';
  keys
    .command('rotate')
    .description(
      'create a key of the same name and print it; the old one expires after the overlap',
    )
    .addArgument(ID)
    .addOption(OVERLAP)
    .addOption(EXPIRES)
    .addHelpText('after', exitCodes({ 0: 'rotated', 1: unchanged }))
    .action(onKeys(rotate));
  keys
    .command('admit')
    .description('make the key in LOCAL_API_KEY valid')
    .addOption(NAME)
    .addHelpText('after', exitCodes({ 0: 'the key is valid', 1: 'the key is not valid' }))
    .action(onKeys(admit));
}

/** The action of a command: calls `work` with the keys, and with the arguments and options of the command. */
function onKeys<Args extends unknown[]>(work: (keys: ApiKeys, ...args: Args) => Promise<void>) {
  return async (...args: Args): Promise<void> => {
    const environment = loadEnvironment();
    await onCommandDatabase(environment, async (url) => {
      await requireMigrated(url, environment);
      await administerKeys(url, (keys) => work(keys, ...args));
    });
  };
}

async function create(
  keys: ApiKeys,
  { name, expires }: { name: string; expires?: number },
): Promise<void> {
  const { id, key } = await keys.issue(name, expires);
  try {
    // Unlike console.log, this throws if the reader is gone or the disk is full.
    writeSync(1, `${key}\n`);
  } catch (error) {
    await keys.revoke(id);
    throw new OperatorError(`Key ${id} could not be shown, and is revoked: ${error}`);
  }
  console.error(`Key ${id} for ${JSON.stringify(name)}; it is shown only this once.`);
}

async function list(keys: ApiKeys, { json }: { json?: true }): Promise<void> {
  const found = await keys.list();
  if (json) {
    console.log(JSON.stringify(found.map(asJson), undefined, 2));
  } else {
    found.forEach((key) => console.log(describe(key)));
  }
}

async function revoke(keys: ApiKeys, id: string): Promise<void> {
  if (!(await keys.revoke(id))) {
    throw new OperatorError(`There is no key ${id}, or it is revoked already.`);
  }
  console.error(`Key ${id} is revoked; every process rejects it within 5 seconds.`);
}

async function rotate(
  keys: ApiKeys,
  id: string,
  { overlap, expires }: { overlap: number; expires?: number },
): Promise<void> {
  const old = await keys.find(id);
  if (old === null) {
    throw new OperatorError(`There is no key ${id}.`);
  }
  if (!old.isValid) {
    throw new OperatorError(`Key ${id} is not valid: ${stateOf(old)}. Create a new one.`);
  }
  // The new key is created first: if that fails, the old key stays valid.
  await create(keys, { name: old.name, expires });
  await keys.limit(id, overlap);
  console.error(`Key ${id}: ${stateOf((await keys.find(id))!)}.`);
}

const REMEDY = 'Make one with animal-store keys create --name local, and put it into .env.';

async function admit(keys: ApiKeys, { name }: { name: string }): Promise<void> {
  const key = secretOf('LOCAL_API_KEY', process.env) ?? '';
  if (!isApiKey(key)) {
    throw new OperatorError(
      `LOCAL_API_KEY must hold a key that this service could have issued, as in .env.example. ${REMEDY}`,
    );
  }
  if (!(await keys.admit(key, name))) {
    throw new OperatorError(
      `The key in LOCAL_API_KEY is revoked or expired. It cannot become valid again. ${REMEDY}`,
    );
  }
  console.error('The key in LOCAL_API_KEY is valid.');
}

function nameOf(text: string): string {
  if (text.trim() === '' || [...text].length > 100 || text.includes('\0')) {
    throw new InvalidArgumentError('It must have 1 to 100 characters.');
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

/** One line, its fields separated by tabs. */
function describe(key: ApiKey): string {
  const { id, createdAt, lastUsedAt } = key;
  const used = lastUsedAt === null ? 'never used' : `used ${lastUsedAt.toISOString()}`;
  const name = JSON.stringify(key.name);
  return [id, name, `created ${createdAt.toISOString()}`, stateOf(key), used].join('\t');
}

function stateOf(key: ApiKey): string {
  if (key.revokedAt !== null) {
    return `revoked ${key.revokedAt.toISOString()}`;
  }
  const end = endOf(key);
  return end === null
    ? 'valid'
    : `${key.isExpired ? 'expired' : 'valid until'} ${end.toISOString()}`;
}

/** Times are in the format of RFC 3339, or null. */
function asJson(key: ApiKey) {
  const { id, name, isValid, createdAt, revokedAt, lastUsedAt } = key;
  return { id, name, isValid, createdAt, expiresAt: endOf(key), revokedAt, lastUsedAt };
}

/** When a key expires; null if it never does. pg reads PostgreSQL's `infinity` as a number. */
const endOf = ({ expiresAt }: ApiKey) => (expiresAt instanceof Date ? expiresAt : null);
