import { isApiKey } from '../api-key.js';
import type { ApiKey } from '../auth/api-key.entity.js';
import { administerKeys, type ApiKeys } from '../auth/api-keys.js';
import { secretOf } from '../config/environment.js';
import { requireMigrated } from '../schema/migrations.js';
import { OperatorError } from '../errors/operator-error.js';
import { onCommandDatabase } from './command.js';
import { print } from './print.js';

/** The action of a command: calls `work` with the keys, and with the arguments and options of the command. */
function onKeys<Args extends unknown[]>(work: (keys: ApiKeys, ...args: Args) => Promise<void>) {
  return (...args: Args): Promise<void> =>
    onCommandDatabase(async ({ url, environment }) => {
      await requireMigrated(url, environment);
      await administerKeys(url, (keys) => work(keys, ...args));
    });
}

export const create = onKeys(
  async (keys, { name, expires }: { name: string; expires?: number }) => {
    const { id, key } = await keys.issue(name, expires);
    try {
      print(key);
    } catch (error) {
      await keys.revoke(id);
      throw new OperatorError(`Key ${id} could not be shown, and is revoked: ${error}`);
    }
    console.error(`Key ${id} for ${quoted(name)}; it is shown only this once.`);
  },
);

export const list = onKeys(async (keys) => {
  for (const key of await keys.list()) {
    const { id, name, createdAt, lastUsedAt } = key;
    const created = `created ${createdAt.toISOString()}`;
    const used = lastUsedAt === null ? 'never used' : `used ${lastUsedAt.toISOString()}`;
    print([id, quoted(name), created, stateOf(key), used].join('\t'));
  }
});

/** In JSON, without characters that control a terminal or the direction of text, which may show another name. */
const quoted = (name: string) =>
  JSON.stringify(name).replaceAll(
    /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

export const revoke = onKeys(async (keys, id: string) => {
  if (!(await keys.revoke(id))) {
    throw new OperatorError(`There is no key ${id}, or it is revoked already.`);
  }
  console.error(`Key ${id} is revoked; every process rejects it within 5 seconds.`);
});

/** The key in `.env.example`. */
const PUBLIC_KEY = 'animalstore_ngtlj8jjjiShgVdwmhF_Qu2tfpiVJ1Fw1eNqn38bwECkUIZQ';

/** The value of `HOST` or, of containers, of `PUBLISHED_HOST`, if only this machine can connect. */
const LOOPBACK = /^(?:127(?:\.\d+){3}|\[?::1\]?|localhost)?$/;

export const admit = onKeys(async (keys, { name }: { name: string }) => {
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
});

function stateOf({ expiresAt, isExpired, revokedAt }: ApiKey): string {
  // pg reads PostgreSQL's `infinity` as a number.
  const end = revokedAt ?? (expiresAt instanceof Date ? expiresAt : null);
  const state = revokedAt ? 'revoked' : isExpired ? 'expired' : 'valid until';
  return end === null ? (isExpired ? 'expired' : 'valid') : `${state} ${end.toISOString()}`;
}
