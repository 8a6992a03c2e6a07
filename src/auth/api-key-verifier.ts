import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Pool } from 'pg';
import { BATCH_LIMITS, Batcher } from '../database/batcher.js';
import { run, type Statement } from '../database/statement.js';
import type { Caller } from '../http/request.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import { hashApiKey, isApiKey } from './api-key.js';

/** For how long a verified key is accepted without asking the database again. */
export const VERIFICATION = {
  /**
   * Milliseconds for which a result of the database counts. A revoked key must stop working within 5 seconds, also
   * while the database cannot be reached.
   */
  trustedFor: 4_000,
  /** Milliseconds between two rounds in which all keys in use are verified again. */
  refreshEvery: 2_000,
  /** Keys remembered at most. */
  keys: 10_000,
  /** Milliseconds between a lookup of a key that the database does not have and the next lookup. */
  pauseAfterUnknown: 10,
} as const;

/** The keys that are valid now, of those whose hash is in `$1`, in hexadecimal. */
export const VALID_KEYS: Statement = {
  name: 'valid-keys',
  text: `
  select id, encode(hash, 'hex'), extract(epoch from expires_at) * 1000
    from api_keys
   where hash = any (array(select decode(sent, 'hex') from unnest($1::text[]) as sent))
     and revoked_at is null and (expires_at is null or expires_at > now())`,
};

/** To the minute, so that a busy key is not a busy row. */
const NOTE_KEY_USE: Statement = {
  name: 'note-key-use',
  text: `
  update api_keys
     set last_used_at = now()
   where id = any($1::bigint[])
     and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
};

interface Remembered {
  caller: Caller;
  /** Milliseconds since the epoch. */
  trustedUntil: number;
  isUsed: boolean;
}

interface ValidKey {
  id: string;
  /** Milliseconds since the epoch; Infinity for a key that does not expire. */
  expiresAt: number;
}

/**
 * Tells valid keys from others.
 *
 * A key that was found valid is remembered, by its hash; those in use are verified again every two seconds with one
 * statement, outside requests. Only valid keys are remembered, so invalid keys take no memory. A key with a wrong
 * checksum is rejected without asking the database. Whoever knows the scheme can make up keys with a right checksum:
 * then the database is asked once in ten milliseconds, on one connection, for all keys that came meanwhile. So a flood
 * of such keys does not keep the database busy, and a valid key that is new here waits no longer than that.
 *
 * Keys are compared by SHA-256 alone, here and in the database, so the time that a comparison takes says nothing about
 * a stored key.
 */
@Injectable()
export class ApiKeyVerifier implements OnModuleInit, OnModuleDestroy {
  private readonly remembered = new Map<string, Remembered>();
  private readonly lookups = new Batcher('api_keys', (hashes: string[]) => this.lookUp(hashes), {
    ...BATCH_LIMITS,
    size: BATCH_LIMITS.waiting,
    inFlight: 1,
  });
  private pause = Promise.resolve();
  private refreshing?: NodeJS.Timeout;

  constructor(
    private readonly pool: Pool,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onModuleInit(): void {
    this.refreshing = setInterval(() => void this.refresh(), VERIFICATION.refreshEvery).unref();
  }

  async onModuleDestroy(): Promise<void> {
    clearInterval(this.refreshing);
    await this.refresh();
  }

  /** The caller whose key this is, if it was found valid a moment ago. */
  recall(key: string): Caller | undefined {
    const entry = this.remembered.get(hashApiKey(key));
    if (entry === undefined || entry.trustedUntil <= Date.now()) {
      return undefined;
    }
    entry.isUsed = true;
    return entry.caller;
  }

  /** The caller whose key this is, as the database has it now; `undefined` for a key that is not valid. */
  async verify(key: string): Promise<Caller | undefined> {
    if (!isApiKey(key)) {
      return undefined;
    }
    const askedAt = Date.now();
    const hash = hashApiKey(key);
    const valid = await this.lookups.ask(hash);
    if (valid === undefined) {
      return undefined;
    }
    const caller = { keyId: valid.id };
    if (this.remembered.size >= VERIFICATION.keys) {
      const [oldest] = this.remembered.keys();
      this.remembered.delete(oldest!);
    }
    const trustedUntil = trustEnd(valid, askedAt);
    this.remembered.set(hash, { caller, trustedUntil, isUsed: true });
    return caller;
  }

  private async lookUp(hashes: string[]): Promise<(ValidKey | undefined)[]> {
    await this.pause;
    const valid = await this.findValid(hashes);
    const found = hashes.map((hash) => valid.get(hash));
    if (found.includes(undefined)) {
      this.pause = new Promise((resolve) => {
        setTimeout(resolve, VERIFICATION.pauseAfterUnknown);
      });
    }
    return found;
  }

  /** Verifies the keys used since the last round again, notes their use, and forgets all others. */
  private async refresh(): Promise<void> {
    const used = new Map<string, Remembered>();
    for (const [hash, entry] of this.remembered) {
      if (entry.isUsed) {
        used.set(hash, entry);
        entry.isUsed = false;
      } else {
        this.remembered.delete(hash);
      }
    }
    if (used.size === 0) {
      return;
    }
    try {
      const askedAt = Date.now();
      const valid = await this.findValid([...used.keys()]);
      for (const [hash, entry] of used) {
        const key = valid.get(hash);
        if (key === undefined) {
          this.remembered.delete(hash);
        } else {
          entry.trustedUntil = trustEnd(key, askedAt);
        }
      }
    } catch (error) {
      this.logger.warn({ reason: String(error) }, 'API keys could not be verified again');
      return;
    }
    try {
      await run(this.pool, NOTE_KEY_USE, [[...used.values()].map(({ caller }) => caller.keyId)]);
    } catch (error) {
      this.logger.warn({ reason: String(error) }, 'The use of API keys could not be noted');
    }
  }

  private async findValid(hashes: string[]): Promise<Map<string, ValidKey>> {
    const rows = await run<[id: string, hash: string, expiresAt: string | null]>(
      this.pool,
      VALID_KEYS,
      [hashes],
    );
    return new Map(
      rows.map(([id, hash, expiresAt]) => [hash, { id, expiresAt: Number(expiresAt ?? Infinity) }]),
    );
  }
}

function trustEnd({ expiresAt }: ValidKey, askedAt: number): number {
  return Math.min(askedAt + VERIFICATION.trustedFor, expiresAt);
}
