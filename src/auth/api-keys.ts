import { type DataSource, IsNull } from 'typeorm';
import { hashApiKey, newApiKey } from './api-key.js';
import { ApiKey } from './api-key.entity.js';

/** What an operator does with keys. */
export class ApiKeys {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Issues a key. Its text is returned here and is nowhere else afterwards.
   *
   * @param name 1 to 100 characters.
   * @param expiresAt from this instant on it is no longer valid.
   */
  async issue(name: string, expiresAt: Date | null = null): Promise<{ id: string; key: string }> {
    const key = newApiKey();
    const hash = bytesOf(hashApiKey(key));
    const { id } = await this.dataSource.getRepository(ApiKey).save({ name, hash, expiresAt });
    return { id, key };
  }

  /** Makes `key`, which was chosen elsewhere, valid; one that is stored already stays as it is. */
  async admit(key: string, name: string): Promise<void> {
    const hash = bytesOf(hashApiKey(key));
    await this.dataSource
      .createQueryBuilder()
      .insert()
      .into(ApiKey)
      .values({ name, hash })
      .orIgnore()
      .execute();
  }

  /** Whether `key` is stored and neither revoked nor limited in time. */
  isLasting(key: string): Promise<boolean> {
    const hash = bytesOf(hashApiKey(key));
    return this.dataSource
      .getRepository(ApiKey)
      .existsBy({ hash, revokedAt: IsNull(), expiresAt: IsNull() });
  }

  /** @returns all keys, by id. */
  list(): Promise<ApiKey[]> {
    return this.dataSource.getRepository(ApiKey).find({ order: { id: 'ASC' } });
  }

  /**
   * Ends a key's validity; every process refuses it within 5 seconds.
   *
   * @param id an int64 in decimal.
   * @returns whether a key with this id was valid until now.
   */
  async revoke(id: string): Promise<boolean> {
    const { affected } = await this.dataSource
      .createQueryBuilder()
      .update(ApiKey)
      .set({ revokedAt: () => 'now()' })
      .where('id = :id and revoked_at is null', { id })
      .execute();
    return affected === 1;
  }
}

function bytesOf(hash: string): Buffer {
  return Buffer.from(hash, 'hex');
}
