import type { Pool } from 'pg';
import { hashApiKey, newApiKey } from './api-key.js';

/** An API key as the table `api_keys` has it. Its text is nowhere. */
export interface ApiKey {
  /** An int64 in decimal. */
  id: string;
  /** What a person calls it: 1 to 100 characters. */
  name: string;
  /** This and the others are instants in ISO 8601, in UTC. */
  createdAt: string;
  /** From this instant on it is no longer valid. */
  expiresAt: string | null;
  isExpired: boolean;
  /** Once set, it is no longer valid. */
  revokedAt: string | null;
  /** To the minute. */
  lastUsedAt: string | null;
}

/** The column as text that no setting of the session changes; one of `infinity` is null. */
const instant = (column: string) =>
  `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** Of a row of `api_keys`. */
export const IS_VALID = 'revoked_at is null and (expires_at is null or expires_at > now())';

/** What an operator does with keys. */
export class ApiKeys {
  constructor(private readonly pool: Pool) {}

  /**
   * Issues a key. Its text is returned here and is nowhere else afterwards.
   *
   * @param name 1 to 100 characters.
   * @param lifetime milliseconds for which it is valid, by PostgreSQL's clock; for good without it.
   */
  async issue(name: string, lifetime: number | null = null): Promise<{ id: string; key: string }> {
    const key = newApiKey();
    const { rows } = await this.pool.query<{ id: string }>(
      `insert into api_keys (name, hash, expires_at)
       values ($1, decode($2, 'hex'), now() + $3::float8 * interval '1 millisecond')
       returning id`,
      [name, hashApiKey(key), lifetime],
    );
    return { id: rows[0]!.id, key };
  }

  /**
   * Makes `key`, which was chosen elsewhere, valid; one that is stored already stays as it is.
   *
   * @returns whether it is valid now.
   */
  async admit(key: string, name: string): Promise<boolean> {
    await this.pool.query(
      `insert into api_keys (name, hash) values ($1, decode($2, 'hex')) on conflict (hash) do nothing`,
      [name, hashApiKey(key)],
    );
    const { rowCount } = await this.pool.query(
      `select from api_keys
        where hash = decode($1, 'hex') and ${IS_VALID}`,
      [hashApiKey(key)],
    );
    return rowCount === 1;
  }

  /** Whether `key` is stored and neither revoked nor limited in time. */
  async isLasting(key: string): Promise<boolean> {
    const { rowCount } = await this.pool.query(
      `select from api_keys where hash = decode($1, 'hex') and revoked_at is null and expires_at is null`,
      [hashApiKey(key)],
    );
    return rowCount === 1;
  }

  /** @returns all keys, by id. */
  async list(): Promise<ApiKey[]> {
    const { rows } = await this.pool.query<ApiKey>(
      `select id, name, ${instant('created_at')} as "createdAt", ${instant('expires_at')} as "expiresAt",
              coalesce(expires_at <= now(), false) as "isExpired",
              ${instant('revoked_at')} as "revokedAt", ${instant('last_used_at')} as "lastUsedAt"
         from api_keys
        order by id`,
    );
    return rows;
  }

  /**
   * Ends a key's validity; every process refuses it within 5 seconds.
   *
   * @param id an int64 in decimal.
   * @returns whether there was a key with this id that was not revoked yet.
   */
  async revoke(id: string): Promise<boolean> {
    const { rowCount } = await this.pool.query(
      `update api_keys set revoked_at = now() where id = $1 and revoked_at is null`,
      [id],
    );
    return rowCount === 1;
  }
}
