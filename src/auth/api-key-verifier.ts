import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { PoolClient } from 'pg';
import { Lane } from '../database/lane.js';
import { ServingPool } from '../database/pool.js';
import { run, type SessionSource, Statement, withSession } from '../database/statement.js';
import { reasonOf } from '../errors/database-error.js';
import { Gate } from '../gate/gate.js';
import type { Request } from '../http/express-classes.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import { hashApiKey, isApiKey } from '../api-key.js';

/** Limits; times in milliseconds. */
export const VERIFICATION = {
  /** For which a result of the database is used. A revoked key stops working within 5 seconds, also without the database. */
  trustedFor: 4_000,
  /** Between two rounds in which the keys in use are verified again. */
  refreshEvery: 2_000,
  /** Between a lookup of an unknown key and the next lookup. */
  pauseAfterUnknown: 10,
} as const;

/** The valid keys among those with the hashes `$1`, in hexadecimal, and the milliseconds until each expires. */
export const VALID_KEYS = new Statement(
  'valid-keys',
  `
  select id, encode(hash, 'hex'), (extract(epoch from expires_at) - extract(epoch from now())) * 1000
    from api_keys
   where hash = any (array(select decode(sent, 'hex') from unnest($1::text[]) as sent))
     and revoked_at is null and (expires_at is null or expires_at > now())`,
);

/** Stores when keys were last used: at most once a minute, so that the row of a busy key is not updated all the time. */
const NOTE_KEY_USE = new Statement(
  'note-key-use',
  `
  update api_keys
     set last_used_at = now()
   where id = any($1::bigint[])
     and (last_used_at is null or last_used_at < now() - interval '1 minute')`,
);

/**
 * The token of an `Authorization`: after `Bearer` in any letter case and one or more spaces (RFC 6750, section 2.1). Two
 * headers, which the server joins with a comma, have none.
 */
export const tokenOf = (authorization = ''): string | undefined =>
  /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization)?.[1];

type Caller = NonNullable<Request['user']>;

interface ValidKey {
  caller: Caller;
  /** By `performance.now()`: the machine's clock may be set back. */
  trustedUntil: number;
  isUsed: boolean;
}

/**
 * Decides which keys are valid. Keys are compared only by SHA-256, so the time of a comparison reveals nothing.
 *
 * Valid keys are remembered, and a timer verifies those in use again, with one statement that no request waits for.
 * A key with a wrong checksum is rejected without a query. An attacker can generate others: they are looked up
 * together, at most every ten milliseconds. So a flood of them does not keep the database busy, and delays a valid key
 * that is not remembered yet by some twenty milliseconds at most.
 */
@Injectable()
export class ApiKeyVerifier implements OnModuleInit, OnModuleDestroy {
  private readonly remembered = new Map<string, ValidKey>();
  private readonly sessions: SessionSource;
  private readonly lookups: Lane<string, ValidKey | undefined>;
  private pause = Promise.resolve();
  private refreshing?: NodeJS.Timeout;

  constructor(
    pool: ServingPool,
    @Inject(LOGGER) private readonly logger: Logger,
    gate: Gate,
  ) {
    this.sessions = pool.share('api keys');
    const afterPause = { connect: () => this.pause.then(() => this.sessions.connect()) };
    const lookUp = (hashes: string[], session: PoolClient) => this.lookUp(hashes, session);
    this.lookups = new Lane(afterPause, lookUp, {
      keyOf: (hash) => hash,
      requestsPerStatement: Infinity,
      // A second lookup is sent only if the first one has no result in time.
      statementsPerLane: 2,
    });
    gate.recognize = (request) => this.recognize(request);
  }

  onModuleInit(): void {
    this.refreshing = setInterval(() => void this.refresh(), VERIFICATION.refreshEvery).unref();
  }

  async onModuleDestroy(): Promise<void> {
    clearInterval(this.refreshing);
    await this.refresh();
  }

  /** @param hash of a key: {@link hashApiKey}. @returns its caller, if the key is remembered. */
  recall(hash: string): Caller | undefined {
    const entry = this.remembered.get(hash);
    if (entry === undefined || entry.trustedUntil <= performance.now()) {
      return undefined;
    }
    entry.isUsed = true;
    return entry.caller;
  }

  /** Looks the key up in the database. @returns its caller; `undefined` if the key is not valid. */
  async verify(key: string, deadline: number): Promise<Caller | undefined> {
    const hash = hashApiKey(key);
    const valid = isApiKey(key) ? await this.lookups.ask(hash, deadline) : undefined;
    if (valid !== undefined) {
      this.remembered.set(hash, valid);
    }
    return valid?.caller;
  }

  /** For the gate, when a request has arrived. @returns the id of its key, if that is remembered. */
  private recognize(request: Request): string | undefined {
    const token = tokenOf(request.headers.authorization);
    if (token === undefined) {
      return undefined;
    }
    request.keyHash = hashApiKey(token);
    return this.recall(request.keyHash)?.keyId;
  }

  private async lookUp(hashes: string[], session: PoolClient): Promise<(ValidKey | undefined)[]> {
    const valid = await this.findValid(hashes, session);
    const found = hashes.map((hash) => valid.get(hash));
    if (found.includes(undefined)) {
      this.pause = new Promise((resolve) => {
        setTimeout(resolve, VERIFICATION.pauseAfterUnknown);
      });
    }
    return found;
  }

  /** Verifies again the keys that were used since the last round, stores their last use, and forgets all others. */
  private async refresh(): Promise<void> {
    for (const [hash, entry] of this.remembered) {
      if (!entry.isUsed) {
        this.remembered.delete(hash);
      }
      entry.isUsed = false;
    }
    const used = new Map(this.remembered);
    if (used.size === 0) {
      return;
    }
    try {
      const valid = await withSession(this.sessions, (session) =>
        this.findValid([...used.keys()], session),
      );
      for (const [hash, entry] of used) {
        entry.trustedUntil = valid.get(hash)?.trustedUntil ?? 0;
      }
      const ids = [...used.values()].map(({ caller }) => caller.keyId);
      await withSession(this.sessions, (session) => run(session, NOTE_KEY_USE, [ids]));
    } catch (error) {
      const message = 'API keys could not be verified again, or their last use could not be stored';
      this.logger.warn({ reason: reasonOf(error) }, message);
    }
  }

  private async findValid(hashes: string[], session: PoolClient): Promise<Map<string, ValidKey>> {
    const askedAt = performance.now();
    type Row = [id: string, hash: string, expiresIn: string | null];
    const rows = await run<Row>(session, VALID_KEYS, [hashes]);
    return new Map(
      rows.map(([keyId, hash, expiresIn]) => {
        const trustedFor = Math.min(VERIFICATION.trustedFor, Number(expiresIn ?? Infinity));
        return [hash, { caller: { keyId }, trustedUntil: askedAt + trustedFor, isUsed: true }];
      }),
    );
  }
}
