import { IsNull, type Repository } from 'typeorm';
import { hashApiKey, newApiKey } from '../api-key.js';
import { administer } from '../database/database.js';
import { ApiKey } from './api-key.entity.js';

/** SQL for the time `lifetime` milliseconds from now, by PostgreSQL's clock. */
const after = (lifetime: number) => `now() + ${lifetime} * interval '1 millisecond'`;

const hashOf = (key: string) => Buffer.from(hashApiKey(key), 'hex');

/**
 * Calls `work` with the keys of the database at `url`.
 *
 * @throws OperatorError if the database cannot be used; also throws what `work` throws.
 */
export function administerKeys<T>(url: string, work: (keys: ApiKeys) => Promise<T>): Promise<T> {
  return administer(url, (dataSource) => work(new ApiKeys(dataSource.getRepository(ApiKey))), {
    entities: [ApiKey],
  });
}

/**
 * The operator's actions on keys. On `api_keys`, they need select, insert and update of `expires_at` and `revoked_at`. An
 * `id` is an int64 in decimal; a `lifetime` is in milliseconds from now.
 */
export class ApiKeys {
  constructor(private readonly keys: Repository<ApiKey>) {}

  /**
   * Issues a key. Its text is returned here, and is not stored.
   *
   * @param name 1 to 100 characters.
   * @param lifetime without it, the key does not expire.
   */
  async issue(name: string, lifetime?: number): Promise<{ id: string; key: string }> {
    const key = newApiKey();
    const expiresAt = lifetime === undefined ? null : () => after(lifetime);
    const { identifiers } = await this.keys.insert({ name, hash: hashOf(key), expiresAt });
    return { id: identifiers[0]!['id'], key };
  }

  /**
   * Stores a `key` that was generated elsewhere. If the key is stored already, nothing changes.
   *
   * @returns whether the key is valid now.
   */
  async admit(key: string, name: string): Promise<boolean> {
    const hash = hashOf(key);
    await this.keys.createQueryBuilder().insert().values({ name, hash }).orIgnore().execute();
    return (await this.keys.findOneByOrFail({ hash })).isValid;
  }

  /** Whether `key` is stored, is not revoked and does not expire. */
  isLasting(key: string): Promise<boolean> {
    return this.keys.existsBy({ hash: hashOf(key), revokedAt: IsNull(), expiresAt: IsNull() });
  }

  /** @returns all keys, by id. */
  list(): Promise<ApiKey[]> {
    return this.keys.find({ order: { id: 'ASC' } });
  }

  find(id: string): Promise<ApiKey | null> {
    return this.keys.findOneBy({ id });
  }

  /** Has a key expire at the end of `lifetime`, unless it expires sooner already. */
  async limit(id: string, lifetime: number): Promise<void> {
    // `least` ignores null.
    await this.keys.update({ id }, { expiresAt: () => `least(expires_at, ${after(lifetime)})` });
  }

  /**
   * Revokes a key. Every process rejects it within 5 seconds.
   *
   * @returns whether there was a key with this id that was not revoked.
   */
  async revoke(id: string): Promise<boolean> {
    const now = { revokedAt: () => 'now()' };
    return (await this.keys.update({ id, revokedAt: IsNull() }, now)).affected === 1;
  }
}
