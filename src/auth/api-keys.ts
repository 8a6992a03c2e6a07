import { IsNull, Raw, type Repository } from 'typeorm';
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

/** The operator's actions on keys. */
export class ApiKeys {
  constructor(private readonly keys: Repository<ApiKey>) {}

  /**
   * Issues a key. Its text is returned here, and is not stored.
   *
   * @param name 1 to 100 characters.
   * @param lifetime milliseconds for which the key is valid, by PostgreSQL's clock; without it, the key does not
   *   expire.
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
    return this.keys.existsBy([
      { hash, revokedAt: IsNull(), expiresAt: IsNull() },
      { hash, revokedAt: IsNull(), expiresAt: Raw((column) => `${column} > now()`) },
    ]);
  }

  /** Whether `key` is stored, is not revoked and does not expire. */
  async isLasting(key: string): Promise<boolean> {
    return this.keys.existsBy({ hash: hashOf(key), revokedAt: IsNull(), expiresAt: IsNull() });
  }

  /** @returns all keys, by id. */
  async list(): Promise<ApiKey[]> {
    return this.keys.find({ order: { id: 'ASC' } });
  }

  /** @param id an int64 in decimal. */
  async find(id: string): Promise<ApiKey | null> {
    return this.keys.findOneBy({ id });
  }

  /**
   * Sets the time at which a key expires, unless it expires sooner already.
   *
   * @param id an int64 in decimal.
   * @param lifetime milliseconds from now.
   */
  async limit(id: string, lifetime: number): Promise<void> {
    // `least` ignores null.
    await this.keys.update({ id }, { expiresAt: () => `least(expires_at, ${after(lifetime)})` });
  }

  /**
   * Revokes a key. Every process rejects it within 5 seconds.
   *
   * @param id an int64 in decimal.
   * @returns whether there was a key with this id that was not revoked.
   */
  async revoke(id: string): Promise<boolean> {
    const { affected } = await this.keys.update(
      { id, revokedAt: IsNull() },
      { revokedAt: () => 'now()' },
    );
    return affected === 1;
  }
}
