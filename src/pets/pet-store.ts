import type { PoolClient } from 'pg';
import { columnsOf } from '../database/columns.js';
import type { LaneLimits } from '../database/lane.js';
import { DATABASE_LIMITS } from '../database/limits.js';
import { propertiesOf } from '../validation/decorators.js';
import { NewPet } from './new-pet.dto.js';
import { Pet } from './pet.entity.js';

/** What a client sends. The database sets the other columns, by their defaults. */
export const NEW_PET_COLUMNS = columnsOf(Pet).filter(({ property }) =>
  propertiesOf(NewPet).includes(property),
);

export interface StoredPet {
  id: string;
  json: string;
}

export interface Creation {
  apiKeyId: string;
  key: string;
  /** SHA-256 of the pet's content, in hexadecimal. */
  bodyHash: string;
  pet: NewPet;
}

export interface CreatedPet extends StoredPet {
  /** That of the request that created it. */
  bodyHash: string;
  isReplayed: boolean;
}

type Results<T> = Promise<(T | undefined)[]>;

/**
 * The pets and the Idempotency-Keys of the database. Each engine has a class that extends this. Results are in the order of
 * what they are for. Rejects with pg's errors. When a promise resolves, what it wrote is committed.
 */
export abstract class PetStore {
  /** Those of {@link insertOnce}. */
  readonly limits: LaneLimits = { requestsPerStatement: DATABASE_LIMITS.keyedCreatesPerStatement };

  /** @returns `undefined` for a pet that was not stored. */
  abstract insert(pets: readonly NewPet[], session: PoolClient): Results<StoredPet>;

  /**
   * Stores each pet and a record of its Idempotency-Key: both or neither, and nothing if the key has a record of the last 24
   * hours. The keys are all different. @returns `undefined` while another transaction records the key.
   */
  abstract insertOnce(all: readonly Creation[], session: PoolClient): Results<CreatedPet>;

  /** The ids are all different. @param requests how many requests they are for, which is only measured. */
  abstract find(ids: readonly bigint[], session: PoolClient, requests?: number): Results<StoredPet>;

  /** Deletes records of keys that are older than 24 hours, at most 1,000. @returns how many. */
  abstract deleteOldKeys(session: PoolClient): Promise<number>;
}
