import { type Command, InvalidArgumentError } from 'commander';
import { isApiKey } from '../api-key.js';
import type { ApiKey } from '../auth/api-key.entity.js';
import { administerKeys, type ApiKeys } from '../auth/api-keys.js';
import { loadEnvironment, secretOf } from '../config/environment.js';
import { requireMigrated } from '../schema/migrations.js';
import { OperatorError } from '../errors/operator-error.js';
import { INT64_MAX } from '../int64.js';
import { onCommandDatabase } from './command.js';
import { print } from './print.js';

const NAME = ['--name <name>', 'whose key it is: 1 to 100 characters', nameOf] as const;

export function addKeys(program: Command): void {
  const keys = program.command('keys').description('create, list, revoke and admit API keys');
  keys
    .command('create')
    .description('create a key and print it; it cannot be shown again')
    .requiredOption(...NAME)
    .option('--expires <duration>', 'such as 90d; units: s, m, h, d', millisecondsOf)
    .action(onKeys(create));
  keys
    .command('list')
    .description('list all keys, but not their secret text; fields are separated by tabs')
    .action(onKeys(list));
  keys
    .command('revoke')
    .description('end the validity of a key; every process rejects it within 5 seconds')
    .argument('<id>', 'the number that list shows', idOf)
    .action(onKeys(revoke));
  keys
    .command('admit')
    .description('make the key in LOCAL_API_KEY valid')
    .requiredOption(...NAME)
    .action(onKeys(admit));
}

/** The action of a command: calls `work` with the keys, and with the arguments and options of the command. */
function onKeys<Args extends unknown[]>(work: (keys: ApiKeys, ...args: Args) => Promise<void>) {
  return async (...args: Args): Promise<void> => {
    const environment = loadEnvironment();
    await onCommandDatabase(environment, async (_dataSource, url) => {
      await requireMigrated(url, environment);
      await administerKeys(url, (keys) => work(keys, ...args));
    });
  };
}

async function create(keys: ApiKeys, { name, expires }: { name: string; expires?: number }) {
  const { id, key } = await keys.issue(name, expires);
  try {
    print(key);
  } catch (error) {
    await keys.revoke(id);
    throw new OperatorError(`Key ${id} could not be shown, and is revoked: ${error}`);
  }
  console.error(`Key ${id} for ${quoted(name)}; it is shown only this once.`);
}

async function list(keys: ApiKeys): Promise<void> {
  for (const key of await keys.list()) {
    const { id, name, createdAt, lastUsedAt } = key;
    const created = `created ${createdAt.toISOString()}`;
    const used = lastUsedAt === null ? 'never used' : `used ${lastUsedAt.toISOString()}`;
    print([id, quoted(name), created, stateOf(key), used].join('\t'));
  }
}

/** In JSON, without characters that control a terminal or the direction of text, which may show another name. */
const quoted = (name: string) =>
  JSON.stringify(name).replaceAll(
    /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

async function revoke(keys: ApiKeys, id: string): Promise<void> {
  if (!(await keys.revoke(id))) {
    throw new OperatorError(`There is no key ${id}, or it is revoked already.`);
  }
  console.error(`Key ${id} is revoked; every process rejects it within 5 seconds.`);
}

/** The key in `.env.example`. */
const PUBLIC_KEY = 'animalstore_ngtlj8jjjiShgVdwmhF_Qu2tfpiVJ1Fw1eNqn38bwECkUIZQ';

/** The value of `HOST` or, of containers, of `PUBLISHED_HOST`, if only this machine can connect. */
const LOOPBACK = /^(?:127(?:\.\d+){3}|\[?::1\]?|localhost)?$/;

async function admit(keys: ApiKeys, { name }: { name: string }): Promise<void> {
  const key = secretOf('LOCAL_API_KEY', process.env) ?? '';
  const { NODE_ENV, HOST = '', PUBLISHED_HOST = HOST } = process.env;
  const isRefused =
    key === PUBLIC_KEY && (NODE_ENV === 'production' || !LOOPBACK.test(PUBLISHED_HOST));
  if (isRefused || !isApiKey(key) || !(await keys.admit(key, name))) {
    const fault = isRefused
      ? 'is public, so it is refused in production, and unless HOST, or PUBLISHED_ADDRESS of Docker Compose, is a loopback address'
      : `is ${isApiKey(key) ? 'revoked or expired' : 'not a key that this service could have issued'}`;
    throw new OperatorError(
      `LOCAL_API_KEY ${fault}. Make one with animal-store keys create --name local, and put it into .env.`,
    );
  }
  console.error('The key in LOCAL_API_KEY is valid.');
}

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

function stateOf({ expiresAt, isExpired, revokedAt }: ApiKey): string {
  // pg reads PostgreSQL's `infinity` as a number.
  const end = revokedAt ?? (expiresAt instanceof Date ? expiresAt : null);
  const state = revokedAt ? 'revoked' : isExpired ? 'expired' : 'valid until';
  return end === null ? (isExpired ? 'expired' : 'valid') : `${state} ${end.toISOString()}`;
}
