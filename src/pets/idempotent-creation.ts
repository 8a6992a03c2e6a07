import { hash } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Pool } from 'pg';
import { BATCH_LIMITS, Batcher } from '../database/batcher.js';
import { run, runForEach } from '../database/statement.js';
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

/** The pet that was created with an Idempotency-Key. */
interface Creation {
  pet: StoredPet;
  bodyHash: string;
  /** Whether an earlier request created the pet. */
  isReplayed: boolean;
}

/** Milliseconds between two rounds in which records older than 24 hours are deleted. */
const SWEEP_EVERY = 10 * 60_000;

/**
 * createPet with an `Idempotency-Key`. The first request with the key creates a pet. In the next 24 hours, a request
 * with the same key and body gets the same pet, and one with a different body is rejected with 422.
 *
 * One statement writes the pet and the record of its key, so neither is written without the other. If a second request
 * comes while the first is in progress in the same process, it gets the result of the first. If the first is in
 * progress in another process, the second is rejected with 409.
 */
@Injectable()
export class IdempotentCreation implements OnModuleInit, OnModuleDestroy {
  private sweeping?: NodeJS.Timeout;
  /** Its batches are small: each request takes a lock, and PostgreSQL has room for only a few thousand locks. */
  private readonly creations = new Batcher(
    'idempotent_creations',
    (requests: HashedRequest[]) =>
      runForEach<[isFree: boolean | null, id: string | null, isStoredAsSent: boolean]>(
        this.pool,
        INSERT_PETS_ONCE,
        [
          ...keysOf(requests),
          requests.map(({ bodyHash }) => bodyHash),
          ...newPetArguments(requests.map(({ pet }) => pet)),
        ],
      ),
    { ...BATCH_LIMITS, size: 64 },
  );
  private readonly lookups = new Batcher('idempotency_keys', (requests: HashedRequest[]) =>
    runForEach<[bodyHash: string, id: string, json: string]>(
      this.pool,
      PETS_BY_IDEMPOTENCY_KEY,
      keysOf(requests),
    ),
  );
  /** The requests in progress, by {@link scopedKey}. */
  private readonly inProgress = new Map<string, Promise<Creation>>();

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
   * @returns the pet, and whether an earlier request created it.
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
      this.createOrFind({ ...request, bodyHash }).finally(() => this.inProgress.delete(key));
    this.inProgress.set(key, creation);
    const { pet, isReplayed, bodyHash: hashOfFirst } = await creation;
    if (hashOfFirst !== bodyHash) {
      throw new ApiError(
        'idempotency_key_reused',
        'This Idempotency-Key was used for another body.',
      );
    }
    return { pet, isReplayed: isReplayed || first !== undefined };
  }

  private async createOrFind(request: HashedRequest): Promise<Creation> {
    const { pet, bodyHash } = request;
    const [isFree, id, isStoredAsSent] = (await this.creations.ask(request))!;
    if (isFree === false) {
      throw new ApiError(
        'idempotency_key_in_use',
        'The first request with this Idempotency-Key is still in progress; try again.',
      );
    }
    if (id === null) {
      return this.find(request);
    }
    if (!isStoredAsSent) {
      throw notStoredAsSent();
    }
    return { pet: { id, json: newPetJson(id, pet) }, bodyHash, isReplayed: false };
  }

  private async find(request: HashedRequest): Promise<Creation> {
    const found = await this.lookups.ask(request);
    if (found === undefined) {
      throw new ApiError(
        'unavailable',
        'The record of this Idempotency-Key just expired; try again.',
      );
    }
    const [bodyHash, id, json] = found;
    return { pet: { id, json }, bodyHash, isReplayed: true };
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
