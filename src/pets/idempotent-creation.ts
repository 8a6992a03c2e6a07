import { hash } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Pool } from 'pg';
import { BATCH_LIMITS, Batcher } from '../database/batcher.js';
import { run } from '../database/statement.js';
import { ApiError } from '../errors/api-error.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import type { NewPet } from './new-pet.dto.js';
import {
  contentOf,
  DELETE_OLD_IDEMPOTENCY_KEYS,
  INSERT_PETS_ONCE,
  newPetArguments,
  newPetJson,
  PETS_BY_IDEMPOTENCY_KEY,
  scopedKey,
} from './pets.sql.js';
import { notStoredAsSent, type StoredPet } from './pets.service.js';

/** A createPet with an Idempotency-Key. The client can safely send it again. */
export interface IdempotentRequest {
  /** The caller's API key, by id. */
  apiKeyId: string;
  /** The `Idempotency-Key`. */
  key: string;
  pet: NewPet;
}

interface HashedRequest extends IdempotentRequest {
  /** SHA-256 of {@link contentOf} the pet, in hexadecimal. */
  bodyHash: string;
}

/** The animal that was created with an Idempotency-Key. */
interface Creation {
  pet: StoredPet;
  bodyHash: string;
  /** Whether an earlier request created the animal. */
  isReplayed: boolean;
}

/** Milliseconds between two rounds in which records older than 24 hours are deleted. */
const SWEEP_EVERY = 10 * 60_000;

/**
 * createPet with an `Idempotency-Key`. The first request with the key creates an animal. In the next 24 hours, a
 * request with the same key and body gets the same animal, and one with a different body is rejected with 422.
 *
 * One statement writes the animal and the record of its key, so neither is written without the other. If a second
 * request comes while the first is in progress in the same process, it gets the result of the first. If the first is in
 * progress in another process, the second is rejected with 409.
 */
@Injectable()
export class IdempotentCreation implements OnModuleInit, OnModuleDestroy {
  private sweeping?: NodeJS.Timeout;
  /**
   * Its batches are small, because each request takes a lock, and PostgreSQL has room for only a few thousand locks.
   */
  private readonly creations = new Batcher(
    'idempotent_creations',
    (requests: HashedRequest[]) => this.createAll(requests),
    { ...BATCH_LIMITS, size: 64 },
  );
  /** The outcomes of requests in progress, by {@link scopedKey}. */
  private readonly inProgress = new Map<string, Promise<Creation | Error>>();

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
   * @throws ApiError `idempotency_key_reused` if the key was used with a different body; `idempotency_key_in_use` if
   *   another process handles the first request; `unavailable` if the record of the key expires between the attempt to
   *   insert it and its lookup. Also throws what `Batcher.ask` throws.
   */
  async create(request: IdempotentRequest): Promise<{ pet: StoredPet; isReplayed: boolean }> {
    const bodyHash = hash('sha256', contentOf(request.pet), 'hex');
    const key = scopedKey(request.apiKeyId, request.key);
    const first = this.inProgress.get(key);
    const creation =
      first ??
      this.creations.ask({ ...request, bodyHash }).finally(() => this.inProgress.delete(key));
    this.inProgress.set(key, creation);
    const outcome = await creation;
    if (outcome instanceof Error) {
      throw outcome;
    }
    if (outcome.bodyHash !== bodyHash) {
      throw new ApiError(
        'idempotency_key_reused',
        'This Idempotency-Key was used for another body.',
      );
    }
    return { pet: outcome.pet, isReplayed: outcome.isReplayed || first !== undefined };
  }

  /** @param requests no two have the same {@link scopedKey}. */
  private async createAll(requests: HashedRequest[]): Promise<(Creation | Error)[]> {
    const outcomes = await this.insert(requests);
    const recorded = requests.filter((_request, i) => outcomes[i] === undefined);
    const earlier = recorded.length > 0 ? await this.findEarlier(recorded) : [];
    return outcomes.map((outcome) => outcome ?? earlier.shift() ?? expired());
  }

  /** @returns the outcomes, without those of requests whose key was recorded in the last 24 hours. */
  private async insert(requests: HashedRequest[]): Promise<(Creation | Error | undefined)[]> {
    const rows = await run<
      [position: number, isFree: boolean | null, id: string | null, isStoredAsSent: boolean]
    >(this.pool, INSERT_PETS_ONCE, [
      ...keysOf(requests),
      requests.map(({ bodyHash }) => bodyHash),
      ...newPetArguments(requests.map(({ pet }) => pet)),
    ]);
    const outcomes: (Creation | Error | undefined)[] = requests.map(() => undefined);
    for (const [position, isFree, id, isStoredAsSent] of rows) {
      const { pet, bodyHash } = requests[position - 1]!;
      if (isFree === false) {
        outcomes[position - 1] = inUse();
      } else if (id !== null) {
        outcomes[position - 1] = isStoredAsSent
          ? { pet: { id, json: newPetJson(id, pet) }, bodyHash, isReplayed: false }
          : notStoredAsSent();
      }
    }
    return outcomes;
  }

  /** Does not throw: an error becomes the outcome of these requests, and others keep theirs. */
  private async findEarlier(requests: HashedRequest[]): Promise<(Creation | Error | undefined)[]> {
    try {
      const rows = await run<[position: number, bodyHash: string, id: string, json: string]>(
        this.pool,
        PETS_BY_IDEMPOTENCY_KEY,
        keysOf(requests),
      );
      const found: (Creation | undefined)[] = requests.map(() => undefined);
      for (const [position, bodyHash, id, json] of rows) {
        found[position - 1] = { pet: { id, json }, bodyHash, isReplayed: true };
      }
      return found;
    } catch (error) {
      return requests.map(() => error as Error);
    }
  }

  /**
   * Deletes records older than 24 hours, up to 1,000 in a statement, except those that another transaction has locked.
   */
  private async sweep(): Promise<void> {
    try {
      while ((await run(this.pool, DELETE_OLD_IDEMPOTENCY_KEYS)).length > 0);
    } catch (error) {
      this.logger.warn({ reason: String(error) }, 'Old idempotency keys could not be deleted');
    }
  }
}

const keysOf = (requests: HashedRequest[]) => [
  requests.map(({ apiKeyId }) => apiKeyId),
  requests.map(({ key }) => key),
];

const inUse = () =>
  new ApiError(
    'idempotency_key_in_use',
    'The first request with this Idempotency-Key is still in progress; try again.',
  );

const expired = () =>
  new ApiError('unavailable', 'The record of this Idempotency-Key just expired; try again.');
