import { writeSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { isApiKey } from '../auth/api-key.js';
import { ApiKey } from '../auth/api-key.entity.js';
import { ApiKeys } from '../auth/api-keys.js';
import { secretOf } from '../config/environment.js';
import { administer, onDatabase } from '../database/database.js';
import { requireMigrated } from '../database/pending-migrations.js';
import { OperatorError } from '../errors/operator-error.js';
import { INT64_MAX } from '../int64.js';
import { program, sayWhere } from './program.js';

const USAGE = `Usage:
  npm run -s keys -- create --name NAME [--expires 90d]   prints the new key, this once
  npm run -s keys -- list
  npm run -s keys -- revoke ID
  npm run -s keys -- admit --name NAME                    makes the key in LOCAL_API_KEY valid
NAME has 1 to 100 characters; --expires takes a number of s, m, h or d.`;

/** What each command takes. */
const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  create: ['name', 'expires'],
  admit: ['name'],
};

type Command = (keys: ApiKeys) => Promise<void>;

/** @throws OperatorError where the arguments make no command. */
function commandOf(args: string[]): Command {
  const { command, argument, name, expires } = readArguments(args);
  switch (command) {
    case 'create': {
      const keyName = requireName(name);
      const lifetime = expires === undefined ? undefined : millisecondsOf(expires);
      return async (keys) => {
        const { id, key } = await keys.issue(keyName, lifetime);
        try {
          // console.log would not say that nobody reads it, or that the disk is full.
          writeSync(1, `${key}\n`);
        } catch (error) {
          await keys.revoke(id);
          throw new OperatorError(`Key ${id} could not be shown, and is revoked: ${error}`);
        }
        console.error(`Key ${id} for ${JSON.stringify(keyName)}; it is shown this once.`);
      };
    }
    case 'list':
      return async (keys) => (await keys.list()).forEach((key) => console.log(describe(key)));
    case 'revoke': {
      const id = requireId(argument);
      return async (keys) => {
        if (!(await keys.revoke(id))) {
          throw new OperatorError(`There is no key ${id}, or it is revoked already.`);
        }
        console.error(`Key ${id} is revoked; every process refuses it within 5 seconds.`);
      };
    }
    case 'admit': {
      const keyName = requireName(name);
      const key = secretOf('LOCAL_API_KEY', process.env) ?? '';
      if (!isApiKey(key)) {
        throw new OperatorError(
          'LOCAL_API_KEY must hold a key that this service could have issued.',
        );
      }
      return async (keys) => {
        if (!(await keys.admit(key, keyName))) {
          throw new OperatorError('The key in LOCAL_API_KEY is revoked or expired, and stays so.');
        }
        console.error('The key in LOCAL_API_KEY is valid.');
      };
    }
    default:
      throw new OperatorError(USAGE);
  }
}

function readArguments(args: string[]) {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: { name: { type: 'string' }, expires: { type: 'string' } },
    });
    const [command = '', argument, ...rest] = positionals;
    const areTaken = Object.keys(values).every((option) => OPTIONS[command]?.includes(option));
    if (areTaken && rest.length === 0 && (argument === undefined || command === 'revoke')) {
      return { command, argument, ...values };
    }
  } catch {
    // Falls through to the usage.
  }
  throw new OperatorError(USAGE);
}

function requireName(name: string | undefined): string {
  if (name === undefined || name.trim() === '' || [...name].length > 100 || name.includes('\0')) {
    throw new OperatorError(`--name is missing or has not 1 to 100 characters.\n${USAGE}`);
  }
  return name;
}

function requireId(id: string | undefined): string {
  if (id === undefined || !/^[0-9]{1,19}$/.test(id) || BigInt(id) > INT64_MAX) {
    throw new OperatorError(`ID must be the number that list shows.\n${USAGE}`);
  }
  return id;
}

const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

function millisecondsOf(duration: string): number {
  const [, count, unit] = /^([1-9][0-9]{0,6})([smhd])$/.exec(duration) ?? [];
  if (count === undefined) {
    throw new OperatorError(`--expires takes a number of s, m, h or d, such as 90d.\n${USAGE}`);
  }
  return Number(count) * UNITS[unit as keyof typeof UNITS];
}

/** One line, its fields separated by tabs. */
function describe(key: ApiKey): string {
  return [
    key.id,
    JSON.stringify(key.name),
    `created ${key.createdAt.toISOString()}`,
    stateOf(key),
    key.lastUsedAt === null ? 'never used' : `used ${key.lastUsedAt.toISOString()}`,
  ].join('\t');
}

function stateOf({ expiresAt, isExpired, revokedAt }: ApiKey): string {
  if (revokedAt !== null) {
    return `revoked ${revokedAt.toISOString()}`;
  }
  // pg reads PostgreSQL's `infinity` as a number.
  if (!(expiresAt instanceof Date)) {
    return 'valid';
  }
  return `${isExpired ? 'expired' : 'valid until'} ${expiresAt.toISOString()}`;
}

await program(async (environment) => {
  const command = commandOf(process.argv.slice(2));
  await onDatabase(environment, async (database) => {
    sayWhere(database);
    const { url } = database;
    await requireMigrated(url, environment);
    await administer(url, (dataSource) => command(new ApiKeys(dataSource.getRepository(ApiKey))));
  });
});
