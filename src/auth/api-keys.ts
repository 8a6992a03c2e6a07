import { IsNull, type Repository } from 'typeorm';
import { hashApiKey, newApiKey } from '../api-key.js';
import { administer } from '../database/connect.js';
import { ApiKey } from './api-key.entity.js';

const hashOf = (key: string) => Buffer.from(hashApiKey(key), 'hex');

/** Calls `work` with the keys of the database at `url`. @throws OperatorError if the database cannot be used. */
export const administerKeys = <T>(url: string, work: (keys: ApiKeys) => Promise<T>): Promise<T> =>
  administer(url, (dataSource) => work(new ApiKeys(dataSource.getRepository(ApiKey))), [ApiKey]);

/** The operator's actions on keys: they select, insert, and update `revoked_at`. An `id` is an int64 in decimal. */
export class ApiKeys {
  constructor(private readonly keys: Repository<ApiKey>) {}

  /** Issues a key with a `name` of 1 to 100 characters. It expires after `lifetime` milliseconds, if that is given. */
  async issue(name: string, lifetime?: number): Promise<{ id: string; key: string }> {
    const key = newApiKey();
    const expiresAt =
      lifetime === undefined ? null : () => `now() + ${lifetime} * interval '1 millisecond'`;
    const { identifiers } = await this.keys.insert({ name, hash: hashOf(key), expiresAt });
    return { id: identifiers[0]!['id'], key };
  }

  /** Stores a `key` that was generated elsewhere, unless it is stored. @returns whether it is valid. */
  async admit(key: string, name: string): Promise<boolean> {
    const hash = hashOf(key);
    await this.keys.createQueryBuilder().insert().values({ name, hash }).orIgnore().execute();
    const { revokedAt, isExpired } = await this.keys.findOneByOrFail({ hash });
    return revokedAt === null && !isExpired;
  }

  list(): Promise<ApiKey[]> {
    return this.keys.find({ order: { id: 'ASC' } });
  }

  /** Revokes a key. @returns whether there was one with this id that was not revoked. */
  async revoke(id: string): Promise<boolean> {
    const now = { revokedAt: () => 'now()' };
    return (await this.keys.update({ id, revokedAt: IsNull() }, now)).affected === 1;
  }
}
