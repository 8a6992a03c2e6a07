import { IsNull, Raw, type Repository } from 'typeorm';
import { hashApiKey, newApiKey } from './api-key.js';
import type { ApiKey } from './api-key.entity.js';

const hashOf = (key: string) => Buffer.from(hashApiKey(key), 'hex');

/** What an operator does with keys. */
export class ApiKeys {
  constructor(private readonly keys: Repository<ApiKey>) {}

  /**
   * Issues a key. Its text is returned here and is nowhere else afterwards.
   *
   * @param name 1 to 100 characters.
   * @param lifetime milliseconds for which it is valid, by PostgreSQL's clock; for good without it.
   */
  async issue(name: string, lifetime?: number): Promise<{ id: string; key: string }> {
    const key = newApiKey();
    const expiresAt =
      lifetime === undefined ? null : () => `now() + ${lifetime} * interval '1 millisecond'`;
    const { identifiers } = await this.keys.insert({ name, hash: hashOf(key), expiresAt });
    return { id: identifiers[0]!['id'], key };
  }

  /**
   * Makes `key`, which was chosen elsewhere, valid; one that is stored already stays as it is.
   *
   * @returns whether it is valid now.
   */
  async admit(key: string, name: string): Promise<boolean> {
    const hash = hashOf(key);
    await this.keys.createQueryBuilder().insert().values({ name, hash }).orIgnore().execute();
    return this.keys.existsBy([
      { hash, revokedAt: IsNull(), expiresAt: IsNull() },
      { hash, revokedAt: IsNull(), expiresAt: Raw((column) => `${column} > now()`) },
    ]);
  }

  /** Whether `key` is stored and neither revoked nor limited in time. */
  async isLasting(key: string): Promise<boolean> {
    return this.keys.existsBy({ hash: hashOf(key), revokedAt: IsNull(), expiresAt: IsNull() });
  }

  /** @returns all keys, by id. */
  async list(): Promise<ApiKey[]> {
    return this.keys.find({ order: { id: 'ASC' } });
  }

  /**
   * Ends a key's validity; every process rejects it within 5 seconds.
   *
   * @param id an int64 in decimal.
   * @returns whether there was a key with this id that was not revoked yet.
   */
  async revoke(id: string): Promise<boolean> {
    const { affected } = await this.keys.update(
      { id, revokedAt: IsNull() },
      { revokedAt: () => 'now()' },
    );
    return affected === 1;
  }
}
