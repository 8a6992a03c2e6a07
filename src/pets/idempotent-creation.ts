import { hash } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { BATCH_LIMITS, Batcher } from '../database/batcher.js';
import { SessionShare } from '../database/session-share.js';
import { run, runForEach } from '../database/statement.js';
import { ApiError } from '../errors/api-error.js';
import { reasonOf } from '../errors/database-error.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import type { NewPet } from './new-pet.dto.js';
import {
  contentOf,
  DELETE_OLD_IDEMPOTENCY_KEYS,
  INSERT_PETS_ONCE,
  newPetArguments,
} from './pets.sql.js';
import type { StoredPet } from './pets.service.js';

interface Creation {
  apiKeyId: string;
  key: string;
  /** SHA-256 of {@link contentOf} the pet, in hexadecimal. */
  bodyHash: string;
  pet: NewPet;
}

/** The row of {@link INSERT_PETS_ONCE} for a creation. */
type Outcome = [id: string | null, json: string, bodyHash: string, isReplayed: boolean];

/** Milliseconds between two rounds in which records older than 24 hours are deleted. */
const SWEEP_EVERY = 10 * 60_000;

/**
 * createPet with an `Idempotency-Key`. The first request with the key creates a pet. For 24 hours, a request with the
 * same key and body gets the same pet, and one with another body 422. While the first is in progress, a second request
 * gets its result if the process is the same, and 409 otherwise.
 */
@Injectable()
export class IdempotentCreation implements OnModuleInit, OnModuleDestroy {
  private sweeping?: NodeJS.Timeout;
  private readonly inProgress = new Map<string, Promise<Outcome>>();
  /** Its batches are small: each request takes a lock, and PostgreSQL has room for only a few thousand locks. */
  private readonly creations = new Batcher((creations: Creation[]) => this.insert(creations), {
    ...BATCH_LIMITS,
    size: 64,
  });

  constructor(
    private readonly sessions: SessionShare,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onModuleInit(): void {
    this.sweeping = setInterval(() => void this.sweep(), SWEEP_EVERY).unref();
  }

  onModuleDestroy(): void {
    clearInterval(this.sweeping);
  }

  /** @throws ApiError `idempotency_key_reused` or `idempotency_key_in_use`, and what `Batcher.ask` throws. */
  async create(apiKeyId: string, key: string, pet: NewPet): Promise<StoredPet> {
    const bodyHash = hash('sha256', contentOf(pet), 'hex');
    const scopedKey = `${apiKeyId} ${key}`;
    const first = this.inProgress.get(scopedKey);
    const outcome =
      first ??
      this.creations
        .ask({ apiKeyId, key, bodyHash, pet })
        .finally(() => this.inProgress.delete(scopedKey));
    this.inProgress.set(scopedKey, outcome);
    const [id, json, hashOfFirst, isReplayed] = await outcome;
    if (id === null) {
      throw new ApiError(
        'idempotency_key_in_use',
        'The first request with this Idempotency-Key is still in progress; try again.',
      );
    }
    if (hashOfFirst !== bodyHash) {
      throw new ApiError(
        'idempotency_key_reused',
        'This Idempotency-Key was used for another body.',
      );
    }
    return { id, json, isReplayed: isReplayed || first !== undefined };
  }

  private async insert(creations: Creation[]): Promise<Outcome[]> {
    const outcomes = await runForEach<Outcome>(this.sessions, INSERT_PETS_ONCE, [
      creations.map(({ apiKeyId }) => apiKeyId),
      creations.map(({ key }) => key),
      creations.map(({ bodyHash }) => bodyHash),
      ...newPetArguments(creations.map(({ pet }) => pet)),
    ]);
    return outcomes as Outcome[];
  }

  /** Deletes old records, except those that another transaction has locked. */
  private async sweep(): Promise<void> {
    try {
      while ((await run(this.sessions, DELETE_OLD_IDEMPOTENCY_KEYS)).length > 0);
    } catch (error) {
      this.logger.warn({ reason: reasonOf(error) }, 'Old idempotency keys could not be deleted');
    }
  }
}
