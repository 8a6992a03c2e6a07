import { hash } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { stringify } from 'lossless-json';
import { Lane } from '../database/lane.js';
import { ServingPool } from '../database/pool.js';
import { type SessionSource, withSession } from '../database/statement.js';
import { ApiError } from '../errors/api-error.js';
import { reasonOf } from '../errors/database-error.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import type { NewPet } from './new-pet.dto.js';
import { type CreatedPet, type Creation, NEW_PET_COLUMNS, PetStore } from './pet-store.js';

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
  private readonly inProgress = new Map<string, Promise<CreatedPet | undefined>>();
  private readonly sessions: SessionSource;
  private readonly creations: Lane<Creation, CreatedPet | undefined>;

  constructor(
    private readonly store: PetStore,
    pool: ServingPool,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.sessions = pool.share('idempotency keys', 'pets');
    const insert: typeof store.insertOnce = (...args) => store.insertOnce(...args);
    this.creations = new Lane(this.sessions, insert, store.limits);
  }

  onModuleInit(): void {
    this.sweeping = setInterval(() => void this.deleteOldKeys(), SWEEP_EVERY).unref();
  }

  onModuleDestroy(): void {
    clearInterval(this.sweeping);
  }

  /** @throws ApiError `idempotency_key_reused` or `idempotency_key_in_use`, and what `Lane.ask` throws. */
  async create(apiKeyId: string, key: string, pet: NewPet, deadline: number): Promise<CreatedPet> {
    const bodyHash = hash('sha256', contentOf(pet), 'hex');
    const scopedKey = `${apiKeyId} ${key}`;
    const first = this.inProgress.get(scopedKey);
    const outcome =
      first ??
      this.creations
        .ask({ apiKeyId, key, bodyHash, pet }, deadline)
        .finally(() => this.inProgress.delete(scopedKey));
    this.inProgress.set(scopedKey, outcome);
    const created = await outcome;
    if (created === undefined) {
      const message =
        'The first request with this Idempotency-Key is still in progress; try again.';
      throw new ApiError('idempotency_key_in_use', message);
    }
    if (created.bodyHash !== bodyHash) {
      const message = 'This Idempotency-Key was used for another body.';
      throw new ApiError('idempotency_key_reused', message);
    }
    return first === undefined ? created : { ...created, isReplayed: true };
  }

  /** Deletes old records, except those that another transaction has locked. Called every ten minutes. */
  async deleteOldKeys(): Promise<void> {
    try {
      while ((await withSession(this.sessions, (one) => this.store.deleteOldKeys(one))) > 0);
    } catch (error) {
      this.logger.warn({ reason: reasonOf(error) }, 'Old idempotency keys could not be deleted');
    }
  }
}

/**
 * The content of a pet, as text, whose hash is stored with an Idempotency-Key. So that hashes of earlier versions match,
 * optional fields are named, and left out if the client did not send them.
 */
export function contentOf(pet: NewPet): string {
  const content: unknown[] = [];
  const optional: Record<string, string> = {};
  for (const { property, isOptional } of NEW_PET_COLUMNS) {
    const value: unknown = pet[property as keyof NewPet];
    const text = value instanceof Object ? stringify(value)! : String(value);
    if (!isOptional) {
      content.push(text);
    } else if (value !== undefined) {
      optional[property] = text;
    }
  }
  return JSON.stringify(Object.keys(optional).length > 0 ? [...content, optional] : content);
}
