import type { OnApplicationShutdown, OnModuleInit } from '@nestjs/common';
import type { Pool, PoolClient } from 'pg';
import { hostsOf } from '../config/database-url.js';
import { Environment } from '../config/environment.js';
import { standbyPool } from '../database/data-source.js';
import { DATABASE_LIMITS } from '../database/limits.js';
import { run, type SessionSource, Statement, withSession } from '../database/statement.js';
import { reasonOf } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import type { Logger } from '../logging/logger.js';

/** The same on a primary and its standbys: the cluster, the database, and the OID of the table `pets`. */
const IDENTITY = `(select concat_ws('/', system_identifier, current_database(), to_regclass('pets')::oid)
            from pg_control_system())`;

type PrimaryPosition = [lsn: string | null, timeline: number | null, identity: string];

/**
 * An LSN that is not before any acknowledged commit, its timeline, and the identity. A server in recovery has no LSN. With
 * `synchronous_commit = off`, commits are acknowledged before they are flushed.
 */
export const PRIMARY_POSITION = new Statement(
  'primary-position',
  `
  select lsn::text, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int,
         ${IDENTITY}
    from (select case
                   when pg_is_in_recovery() then null
                   when current_setting('synchronous_commit') = 'off' then pg_current_wal_insert_lsn()
                   else pg_current_wal_flush_lsn()
                 end as lsn) as position`,
);

/**
 * Whether a standby receives the timeline `$2` and has replayed it up to the LSN `$1`, at the latest after 36 ms. LSNs of
 * different timelines cannot be compared, and a server that was promoted receives none. The second column says why the
 * service must not use the server, such as another identity than `$3`.
 */
const STANDBY_STATE = new Statement(
  'standby-state',
  `
  select exists (select
                   from generate_series(0, 8) as round, pg_sleep(round * 0.001), pg_stat_wal_receiver
                  where received_tli = $2::int and pg_last_wal_replay_lsn() >= $1::pg_lsn),
         case
           when $3::text <> ${IDENTITY}
           then 'is not a standby of the server of DATABASE_URL, or the URL names another database or schema.'
           when not pg_has_role('pg_read_all_stats', 'usage')
           then 'does not show this role what it receives. On the primary, run: grant pg_read_all_stats to '
                || quote_ident(current_user) || ';'
         end`,
);

/** Milliseconds in use after which the log says that reads go to a standby again. */
const STEADY = 60_000;

/** A read: runs its statement on a session of the primary, or of a standby. */
type Read<T> = (session: PoolClient) => Promise<T>;

/**
 * Reads on the hot standbys of `DATABASE_READ_URL`. Each read asks the primary for the position of its log, and runs on a
 * standby that has replayed the log up to it, so it sees every commit that was acknowledged before it began. If a standby
 * is behind, fails or takes too long, the read runs on the primary, as do others until a check of the standby succeeds.
 */
export class Standbys implements OnModuleInit, OnApplicationShutdown {
  /** The number of reads so far, by the kind of server that ran them. */
  readonly reads = { primary: 0, standby: 0 };

  private readonly standbys: Standby[];
  private turn = 0;
  private checking?: NodeJS.Timeout;

  constructor(
    private readonly primary: SessionSource,
    { DATABASE_READ_URL: url, DATABASE_READ_URL_FILE: file, DATABASE_POOL_SIZE }: Environment,
    private readonly logger: Logger,
  ) {
    this.standbys = url
      ? hostsOf(url).map((one) => new Standby(one, DATABASE_POOL_SIZE, file))
      : [];
  }

  /** @throws OperatorError if a server is not a standby of this primary, or the role lacks `pg_read_all_stats`. */
  async onModuleInit(): Promise<void> {
    if (this.standbys.length > 0) {
      this.checking = setInterval(() => void this.check(), DATABASE_LIMITS.standbyCheck).unref();
      await this.check();
    }
    const wrong = this.standbys.find(({ reason }) => reason instanceof OperatorError);
    if (wrong !== undefined) {
      this.onApplicationShutdown();
      throw wrong.reason;
    }
  }

  /** Does not wait until the connections are closed: with a standby that hangs, that might never happen. */
  onApplicationShutdown(): void {
    clearInterval(this.checking);
    this.standbys.forEach(({ pool }) => void pool.end().catch(() => {}));
  }

  /** The `host:port` of each standby, and the `reason` why it is not used, if it is not. */
  get states(): { server: string; reason?: string }[] {
    return this.standbys.map(({ server, reason: it }) => ({ server, reason: it && reasonOf(it) }));
  }

  /** Runs `work`, which only reads, on a standby. If none is in use, or it fails there, runs it on `primary`. */
  async read<T>(primary: PoolClient, work: Read<T>): Promise<T> {
    const inUse = this.standbys.filter(({ reason }) => reason === undefined);
    if (inUse.length > 0) {
      const standby = inUse[this.turn++ % inUse.length]!;
      try {
        const start = performance.now();
        // If the primary fails, the standby is not to blame.
        const position = await positionOf(primary).catch(() => undefined);
        // Later, an attempt might leave the primary too little time to read.
        if (position !== undefined && performance.now() < start + DATABASE_LIMITS.standby) {
          const result = await standby.read(position, work);
          this.reads.standby += 1;
          return result;
        }
      } catch (error) {
        this.note(standby, error as Error);
      }
    }
    this.reads.primary += 1;
    return work(primary);
  }

  /** Without the position of the primary, no standby is used. */
  private async check(): Promise<void> {
    const position = withSession(this.primary, positionOf);
    const checks = this.standbys.map(async (one) => {
      const look = async () => one.read(await position, async () => undefined);
      this.note(one, await look().catch((error: Error) => error));
    });
    await Promise.all(checks);
  }

  /** Logs a reason once, until the standby was in use for a minute: a slow read gives it up for a second, again and again. */
  private note(one: Standby, error: Error | undefined): void {
    const { server: standby, logged } = one;
    const reason = error && reasonOf(error);
    one.reason = error;
    one.usedSince = reason === undefined ? (one.usedSince ?? performance.now()) : undefined;
    if (reason !== undefined && reason !== logged) {
      this.logger.warn({ standby, reason }, 'Reads do not go to the standby');
      one.logged = reason;
    } else if (logged !== undefined && performance.now() >= one.usedSince! + STEADY) {
      this.logger.info({ standby }, 'Reads go to the standby');
      one.logged = undefined;
    }
  }
}

const positionOf = async (primary: PoolClient): Promise<PrimaryPosition> =>
  (await run<PrimaryPosition>(primary, PRIMARY_POSITION))[0]!;

class Standby {
  /** `host:port`, or the folder of a Unix socket. */
  readonly server: string;
  readonly pool: Pool;
  reason: Error | undefined = new Error('it was not checked yet');
  /** `performance.now()` since which it is in use. */
  usedSince?: number;
  /** The reason that the log has, until it says that reads go to the standby again. */
  logged?: string;

  constructor(url: string, sessions: number, passwordFile?: string) {
    const { host, searchParams } = new URL(url);
    this.server = searchParams.get('host') ?? host;
    this.pool = standbyPool(url, sessions, passwordFile);
  }

  /** @throws if `work` may not run on this standby, and whatever `work` throws. */
  async read<T>(position: PrimaryPosition, work: Read<T>): Promise<T> {
    const session = await this.pool.connect();
    try {
      const [state] = await run<[boolean, string | null]>(session, STANDBY_STATE, position);
      const [hasReplayed, refusal] = state!;
      if (refusal !== null) {
        throw new OperatorError(`The server ${this.server} of DATABASE_READ_URL ${refusal}`);
      }
      if (!hasReplayed) {
        throw new Error('it is behind, or is no longer a standby of the server of DATABASE_URL');
      }
      return await work(session);
    } finally {
      session.release();
    }
  }
}
