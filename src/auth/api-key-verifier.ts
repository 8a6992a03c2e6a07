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

/** The keys with the hashes `$1`, in hexadecimal, the milliseconds until each expires, and whether it is valid. */
export const KEYS_BY_HASH = new Statement(
  'keys-by-hash',
  `
  select id, encode(hash, 'hex'), (extract(epoch from expires_at) - extract(epoch from now())) * 1000,
         revoked_at is null and (expires_at is null or expires_at > now())
    from api_keys
   where hash = any (array(select decode(sent, 'hex') from unnest($1::text[]) as sent))`,
);

/**
 * Keys in use that expire within 14 days, or did in the last day, and when. Those that were issued for fewer days are
 * meant to.
 */
export const EXPIRING_KEYS = new Statement(
  'expiring-keys',
  `
  select id, extract(epoch from expires_at)
    from api_keys
   where revoked_at is null and expires_at between now() - interval '1 day' and now() + interval '14 days'
     and expires_at > created_at + interval '14 days'
     and last_used_at > case when expires_at < now() then expires_at - interval '1 hour' else now() - interval '30 days' end`,
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

interface KnownKey {
  caller: Caller;
  /** Otherwise it is expired or revoked. */
  isValid: boolean;
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
  private readonly remembered = new Map<string, KnownKey>();
  /** The ids of keys whose last use is to be stored. */
  private readonly used = new Set<string>();
  private readonly sessions: SessionSource;
  private readonly lookups: Lane<string, KnownKey | undefined>;
  private pause = Promise.resolve();
  private refreshing?: NodeJS.Timeout;

  constructor(
    pool: ServingPool,
    @Inject(LOGGER) private readonly logger: Logger,
    gate: Gate,
  ) {
    this.sessions = pool.share('api keys');
    const afterPause = { connect: () => this.pause.then(() => this.sessions.connect()) };
    this.lookups = new Lane(afterPause, this.lookUp.bind(this), {
      keyOf: (hash) => hash,
      requestsPerStatement: Infinity,
      rowsPerStatement: Infinity,
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

  /** Looks the key up in the database. @returns its caller, and whether the key is valid; `undefined` if it is unknown. */
  async verify(
    key: string,
    deadline: number,
  ): Promise<Pick<KnownKey, 'caller' | 'isValid'> | undefined> {
    const hash = hashApiKey(key);
    const found = isApiKey(key) ? await this.lookups.ask(hash, deadline) : undefined;
    if (found?.isValid) {
      this.remembered.set(hash, found);
    }
    return found;
  }

  /** @returns when each of the keys expires that soon will, or just did, in seconds since 1970, by its id. */
  async expiring(): Promise<Record<string, number>> {
    type Row = [id: string, expiresAt: string];
    const rows = await withSession(this.sessions, (session) => run<Row>(session, EXPIRING_KEYS));
    return Object.fromEntries(rows.map(([id, expiresAt]) => [id, Number(expiresAt)]));
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

  private async lookUp(hashes: string[], session: PoolClient): Promise<(KnownKey | undefined)[]> {
    const known = await this.find(hashes, session);
    const found = hashes.map((hash) => known.get(hash));
    if (!found.every((one) => one?.isValid)) {
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
    const inUse = new Map(this.remembered);
    inUse.forEach(({ caller }) => this.used.add(caller.keyId));
    const ids = [...this.used];
    if (ids.length === 0) {
      return;
    }
    try {
      const known = await withSession(this.sessions, (session) =>
        this.find([...inUse.keys()], session),
      );
      for (const [hash, entry] of inUse) {
        entry.trustedUntil = known.get(hash)?.trustedUntil ?? 0;
      }
      await withSession(this.sessions, (session) => run(session, NOTE_KEY_USE, [ids]));
      ids.forEach((id) => this.used.delete(id));
    } catch (error) {
      const message = 'API keys could not be verified again, or their last use could not be stored';
      this.logger.warn({ reason: reasonOf(error) }, message);
    }
  }

  private async find(hashes: string[], session: PoolClient): Promise<Map<string, KnownKey>> {
    const askedAt = performance.now();
    type Row = [id: string, hash: string, expiresIn: string | null, isValid: boolean];
    const rows = await run<Row>(session, KEYS_BY_HASH, [hashes]);
    return new Map(
      rows.map(([keyId, hash, expiresIn, isValid]) => {
        const trustedFor = Math.min(VERIFICATION.trustedFor, Number(expiresIn ?? Infinity));
        const trustedUntil = isValid ? askedAt + trustedFor : 0;
        return [hash, { caller: { keyId }, isValid, trustedUntil, isUsed: true }];
      }),
    );
  }
}
