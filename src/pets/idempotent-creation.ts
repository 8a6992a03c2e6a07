import { hash } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Pool } from 'pg';
import { BATCH_LIMITS, Batcher } from '../database/batcher.js';
import { run } from '../database/statement.js';
import { ApiError } from '../errors/api-error.js';
import { sqlState } from '../errors/database-error.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import type { NewPet } from './new-pet.js';
import {
  DELETE_OLD_IDEMPOTENCY_KEYS,
  INSERT_PET_ONCE,
  PET_BY_IDEMPOTENCY_KEY,
} from './idempotent-creation.sql.js';
import type { StoredPet } from './pets.service.js';

/** A creation that a client may send again without doubt. */
export interface IdempotentRequest {
  /** The caller's API key, by id. */
  apiKeyId: string;
  /** The `Idempotency-Key`. */
  key: string;
  pet: NewPet;
}

interface HashedRequest extends IdempotentRequest {
  /** SHA-256 in hexadecimal, the same for bodies of the same meaning. */
  bodyHash: string;
}

interface Creation {
  pet: StoredPet;
  /** Whether an earlier request created the animal. */
  isReplayed: boolean;
}

/** Milliseconds between two rounds in which records older than 24 hours are deleted. */
const SWEEP_EVERY = 10 * 60_000;

/**
 * createPet with an `Idempotency-Key`: the first request creates its animal, every later one within 24 hours gets the
 * same animal again.
 *
 * The animal and the record of its key are written by one statement, so nothing can part them. A twin that comes while
 * the first is under way shares its outcome; one that came to another process, or has another body, waits in PostgreSQL
 * for it, on the record's primary key.
 */
@Injectable()
export class IdempotentCreation implements OnModuleInit, OnModuleDestroy {
  private sweeping?: NodeJS.Timeout;
  private readonly creations: Batcher<HashedRequest, Creation>;
  /** By API key, body and `Idempotency-Key`. */
  private readonly underWay = new Map<string, Promise<Creation>>();

  constructor(
    private readonly pool: Pool,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    // One statement each, as each may have to wait for a twin; a few at a time, so that others find connections.
    const inFlight = Math.max(1, Math.floor(pool.options.max / 3));
    this.creations = new Batcher(
      async ([request]: HashedRequest[]) => [await this.createOnce(request!)],
      { ...BATCH_LIMITS, size: 1, inFlight },
    );
  }

  onModuleInit(): void {
    this.sweeping = setInterval(() => void this.sweep(), SWEEP_EVERY).unref();
  }

  onModuleDestroy(): void {
    clearInterval(this.sweeping);
  }

  /**
   * @returns the animal, and whether an earlier request created it.
   * @throws ApiError `idempotency_key_reused` where the key stands for another body, `idempotency_key_in_use` where
   *   its first request is under way for too long to wait.
   */
  async create(request: IdempotentRequest): Promise<Creation> {
    const { name, categoryId, status } = request.pet;
    const bodyHash = hash('sha256', JSON.stringify([name, String(categoryId), status]), 'hex');
    const twins = `${request.apiKeyId} ${bodyHash} ${request.key}`;
    const first = this.underWay.get(twins);
    if (first !== undefined) {
      return { ...(await first), isReplayed: true };
    }
    const creation = this.creations
      .ask({ ...request, bodyHash })
      .finally(() => this.underWay.delete(twins));
    this.underWay.set(twins, creation);
    return creation;
  }

  private async createOnce({ apiKeyId, key, pet, bodyHash }: HashedRequest): Promise<Creation> {
    const { name, categoryId, status } = pet;
    try {
      const [created] = await run<[id: string, json: string]>(this.pool, INSERT_PET_ONCE, [
        apiKeyId,
        key,
        bodyHash,
        name,
        categoryId,
        status,
      ]);
      if (created !== undefined) {
        const [id, json] = created;
        return { pet: { id, json }, isReplayed: false };
      }
    } catch (cause) {
      if (isWaitForTwin(cause)) {
        throw new ApiError(
          'idempotency_key_in_use',
          'The first request with this Idempotency-Key is still under way; try again.',
          { cause },
        );
      }
      throw cause;
    }
    const [earlier] = await run<[id: string, json: string, bodyHash: string]>(
      this.pool,
      PET_BY_IDEMPOTENCY_KEY,
      [apiKeyId, key],
    );
    if (earlier === undefined) {
      throw new ApiError(
        'unavailable',
        'The record of this Idempotency-Key just expired; try again.',
      );
    }
    const [id, json, earlierHash] = earlier;
    if (earlierHash !== bodyHash) {
      throw new ApiError(
        'idempotency_key_reused',
        'This Idempotency-Key was used for another body.',
      );
    }
    return { pet: { id, json }, isReplayed: true };
  }

  /** Deletes old records a few at a time, passing over those that someone holds. */
  private async sweep(): Promise<void> {
    try {
      while ((await run(this.pool, DELETE_OLD_IDEMPOTENCY_KEYS)).length > 0);
    } catch (error) {
      this.logger.warn({ reason: String(error) }, 'Old idempotency keys could not be deleted');
    }
  }
}

/** SQLSTATE of a statement that ran out of time. */
const QUERY_CANCELED = '57014';

/**
 * Whether a statement ran out of time while it waited for another transaction that records the same key. PostgreSQL's
 * `where` then names a row of the table, in whatever language: `while inserting index tuple (0,1) in relation
 * "idempotency_keys"`. Else the database was slow, or locked for another reason.
 */
function isWaitForTwin(error: unknown): boolean {
  const { where = '' } = error as { where?: string };
  return (
    sqlState(error) === QUERY_CANCELED &&
    /\([0-9]+,[0-9]+\)/.test(where) &&
    where.includes('idempotency_keys')
  );
}
