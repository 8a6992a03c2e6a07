import { hash } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Pool } from 'pg';
import { BATCH_LIMITS, Batcher } from '../database/batcher.js';
import { run } from '../database/statement.js';
import { ApiError } from '../errors/api-error.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import type { NewPet } from './new-pet.dto.js';
import {
  DELETE_OLD_IDEMPOTENCY_KEYS,
  INSERT_PETS_ONCE,
  PETS_BY_IDEMPOTENCY_KEY,
  scopedKey,
} from './idempotent-creation.sql.js';
import { contentOf, newPetArguments } from './pets.sql.js';
import type { StoredPet } from './pets.service.js';

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
    const others = requests.filter(({ apiKeyId, key }) => !outcomes.has(scopedKey(apiKeyId, key)));
    if (others.length > 0) {
      await this.findEarlier(others, outcomes);
    }
    return requests.map(({ apiKeyId, key }) => outcomes.get(scopedKey(apiKeyId, key)) ?? expired());
  }

  /**
   * @returns outcomes by {@link scopedKey}. A key that an earlier request recorded in the last 24 hours has no outcome.
   */
  private async insert(requests: HashedRequest[]): Promise<Map<string, Creation | Error>> {
    const rows = await run<
      [
        apiKeyId: string,
        key: string,
        bodyHash: string,
        isFree: boolean | null,
        id: string | null,
        json: string | null,
      ]
    >(this.pool, INSERT_PETS_ONCE, [
      requests.map(({ apiKeyId }) => apiKeyId),
      requests.map(({ key }) => key),
      requests.map(({ bodyHash }) => bodyHash),
      ...newPetArguments(requests.map(({ pet }) => pet)),
    ]);
    const outcomes = new Map<string, Creation | Error>();
    for (const [apiKeyId, key, bodyHash, isFree, id, json] of rows) {
      if (isFree === false) {
        outcomes.set(scopedKey(apiKeyId, key), inUse());
      } else if (id !== null && json !== null) {
        outcomes.set(scopedKey(apiKeyId, key), { pet: { id, json }, bodyHash, isReplayed: false });
      }
    }
    return outcomes;
  }

  /** Adds outcomes. Does not throw: an error becomes the outcome of these requests, and others keep theirs. */
  private async findEarlier(
    requests: HashedRequest[],
    outcomes: Map<string, Creation | Error>,
  ): Promise<void> {
    try {
      const rows = await run<
        [apiKeyId: string, key: string, bodyHash: string, id: string, json: string]
      >(this.pool, PETS_BY_IDEMPOTENCY_KEY, [
        requests.map(({ apiKeyId }) => apiKeyId),
        requests.map(({ key }) => key),
      ]);
      for (const [apiKeyId, key, bodyHash, id, json] of rows) {
        outcomes.set(scopedKey(apiKeyId, key), { pet: { id, json }, bodyHash, isReplayed: true });
      }
    } catch (error) {
      for (const { apiKeyId, key } of requests) {
        outcomes.set(scopedKey(apiKeyId, key), error as Error);
      }
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

const inUse = () =>
  new ApiError(
    'idempotency_key_in_use',
    'The first request with this Idempotency-Key is still in progress; try again.',
  );

const expired = () =>
  new ApiError('unavailable', 'The record of this Idempotency-Key just expired; try again.');
