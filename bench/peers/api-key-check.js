/**
 * The key check of all peers: a key is looked up by its SHA-256 and its validity is remembered for 4 seconds, as
 * long as the service believes one.
 */
import { hash } from 'node:crypto';
import { Fault } from './contract.js';

const TRUSTED_FOR = 4_000;

export class ApiKeyCheck {
  #remembered = new Map();
  #find;

  /**
   * @param {(hash: Buffer) => Promise<{ id: string, expiresAt: Date | null } | undefined>} find finds a key that
   *   was not revoked.
   */
  constructor(find) {
    this.#find = find;
  }

  /** @returns the id of the key, or `undefined` for one that is not valid. */
  async verify(key) {
    const digest = hash('sha256', key, 'hex');
    const now = Date.now();
    const known = this.#remembered.get(digest);
    if (known !== undefined && known.until > now) {
      return known.id;
    }
    this.#remembered.delete(digest);
    const row = await this.#find(Buffer.from(digest, 'hex'));
    const until = Math.min(now + TRUSTED_FOR, row?.expiresAt?.getTime() ?? Infinity);
    if (row === undefined || until <= now) {
      return undefined;
    }
    this.#remembered.set(digest, { id: row.id, until });
    return row.id;
  }

  /** @returns the id of the key that an `Authorization` header carries. @throws Fault */
  async authenticate(authorization) {
    if (!authorization) {
      throw Fault.missingKey();
    }
    const [, key] = /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization) ?? [];
    const id = key && (await this.verify(key));
    if (!id) {
      throw Fault.invalidKey();
    }
    return id;
  }
}
