import { hash } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Pool } from 'pg';
import { BATCH_LIMITS, Batcher } from '../database/batcher.js';
import { run } from '../database/statement.js';
import { ApiError } from '../errors/api-error.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import type { NewPet } from './new-pet.js';
import {
  DELETE_OLD_IDEMPOTENCY_KEYS,
  INSERT_PETS_ONCE,
  PETS_BY_IDEMPOTENCY_KEY,
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

interface Creation {
  pet: StoredPet;
  /** Whether an earlier request created the animal. */
  isReplayed: boolean;
}

interface HashedRequest extends IdempotentRequest {
  /** SHA-256 in hexadecimal, the same for bodies of the same meaning. */
  bodyHash: string;
}

/** Milliseconds between two rounds in which records older than 24 hours are deleted. */
const SWEEP_EVERY = 10 * 60_000;

/**
 * createPet with an `Idempotency-Key`: the first request creates its animal, every later one within 24 hours gets the
 * same animal again.
 *
 * The animal and the record of its key are written by one statement, so nothing can part them. A twin that comes while
 * the first is under way shares its outcome; one that comes to another process then is told so.
 */
@Injectable()
export class IdempotentCreation implements OnModuleInit, OnModuleDestroy {
  private sweeping?: NodeJS.Timeout;
  /** PostgreSQL holds a lock for each request of a batch, and has room for thousands of all processes. */
  private readonly creations = new Batcher(
    (requests: HashedRequest[]) => this.createAll(requests),
    { ...BATCH_LIMITS, size: 64 },
  );
  /** The first request of each key, by {@link nameOf}. */
  private readonly underWay = new Map<string, { bodyHash: string; creation: Promise<Creation> }>();

  constructor(
    private readonly pool: Pool,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onModuleInit(): void {
    this.sweeping = setInterval(() => void this.sweep(), SWEEP_EVERY).unref();
  }

  onModuleDestroy(): void {
    clearInterval(this.sweeping);
  }

  /**
   * @returns the animal, and whether an earlier request created it.
   * @throws ApiError `idempotency_key_reused` where the key stands for another body, `idempotency_key_in_use` where
   *   another process is working on its first request.
   */
  async create(request: IdempotentRequest): Promise<Creation> {
    const { name, categoryId, status } = request.pet;
    const bodyHash = hash('sha256', JSON.stringify([name, String(categoryId), status]), 'hex');
    const key = nameOf(request.apiKeyId, request.key);
    for (let first; (first = this.underWay.get(key)) !== undefined;) {
      if (first.bodyHash === bodyHash) {
        return { ...(await first.creation), isReplayed: true };
      }
      if (await isCreated(first.creation)) {
        throw reused();
      }
    }
    const creation = this.createNow({ ...request, bodyHash }).finally(() =>
      this.underWay.delete(key),
    );
    this.underWay.set(key, { bodyHash, creation });
    return creation;
  }

  private async createNow(request: HashedRequest): Promise<Creation> {
    const outcome = await this.creations.ask(request);
    if (outcome instanceof ApiError) {
      throw outcome;
    }
    return outcome;
  }

  /** @param requests of which no two have the same key. */
  private async createAll(requests: HashedRequest[]): Promise<(Creation | ApiError)[]> {
    const outcomes = new Map<string, Creation | ApiError>();
    const rows = await run<
      [apiKeyId: string, key: string, isFree: string, id: string | null, json: string | null]
    >(this.pool, INSERT_PETS_ONCE, [
      requests.map(({ apiKeyId }) => apiKeyId),
      requests.map(({ key }) => key),
      requests.map(({ bodyHash }) => bodyHash),
      requests.map(({ pet }) => pet.name),
      requests.map(({ pet }) => pet.categoryId),
      requests.map(({ pet }) => pet.status),
    ]);
    for (const [apiKeyId, key, isFree, id, json] of rows) {
      if (isFree !== 't') {
        outcomes.set(nameOf(apiKeyId, key), inUse());
      } else if (id !== null && json !== null) {
        outcomes.set(nameOf(apiKeyId, key), { pet: { id, json }, isReplayed: false });
      }
    }
    const others = requests.filter(({ apiKeyId, key }) => !outcomes.has(nameOf(apiKeyId, key)));
    if (others.length > 0) {
      await this.findEarlier(others, outcomes);
    }
    return requests.map(({ apiKeyId, key }) => outcomes.get(nameOf(apiKeyId, key)) ?? expired());
  }

  private async findEarlier(
    requests: HashedRequest[],
    outcomes: Map<string, Creation | ApiError>,
  ): Promise<void> {
    const rows = await run<
      [apiKeyId: string, key: string, bodyHash: string, id: string, json: string]
    >(this.pool, PETS_BY_IDEMPOTENCY_KEY, [
      requests.map(({ apiKeyId }) => apiKeyId),
      requests.map(({ key }) => key),
    ]);
    const hashes = new Map(
      requests.map(({ apiKeyId, key, bodyHash }) => [nameOf(apiKeyId, key), bodyHash]),
    );
    for (const [apiKeyId, key, bodyHash, id, json] of rows) {
      const name = nameOf(apiKeyId, key);
      const isSame = bodyHash === hashes.get(name);
      outcomes.set(name, isSame ? { pet: { id, json }, isReplayed: true } : reused());
    }
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

/** A key among those of all API keys. */
const nameOf = (apiKeyId: string, key: string) => `${apiKeyId} ${key}`;

/**
 * Waits for the first request with a key.
 *
 * @returns whether it stands for the key now; not where an earlier one does.
 * @throws whatever else became of it.
 */
async function isCreated(creation: Promise<Creation>): Promise<boolean> {
  try {
    await creation;
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.code === 'idempotency_key_reused') {
      return false;
    }
    throw error;
  }
}

const reused = () =>
  new ApiError('idempotency_key_reused', 'This Idempotency-Key was used for another body.');

const inUse = () =>
  new ApiError(
    'idempotency_key_in_use',
    'The first request with this Idempotency-Key is still under way; try again.',
  );

const expired = () =>
  new ApiError('unavailable', 'The record of this Idempotency-Key just expired; try again.');
