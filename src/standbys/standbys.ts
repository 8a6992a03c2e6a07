import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { Pool, type PoolClient } from 'pg';
import type { DataSource } from 'typeorm';
import { hostsOf } from '../config/database-url.js';
import { Environment, secretOf } from '../config/environment.js';
import { OperatorError } from '../errors/operator-error.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import { poolOf, standbyDataSource } from '../database/data-source.js';
import { PRIMARY_POSITION, SERVER_IDENTITY, STANDBY_HAS_REPLAYED } from './standbys.sql.js';
import { run } from '../database/statement.js';

/** Milliseconds between two checks of the standbys. */
const CHECK_EVERY = 1_000;

/** A read: runs its statement on the primary's pool, or on a standby's session. */
export type Read<T> = (sessions: Pool | PoolClient) => Promise<T>;

type Position = [lsn: string, timeline: number];

/**
 * Reads on the hot standbys of `DATABASE_READ_URL`. Each read asks the primary for the position of its log, and runs on
 * a standby that has replayed the log up to it. So a read sees every commit that was acknowledged before it began. That
 * holds for the commits of every process, and for synchronous and asynchronous replication.
 *
 * If a standby is behind, fails or takes too long, the read runs on the primary. The standby is not used again until a
 * check of it succeeds.
 */
@Injectable()
export class Standbys implements OnModuleInit, OnApplicationShutdown {
  /** The number of reads so far, by the kind of server that ran them. */
  readonly reads = { primary: 0, standby: 0 };

  private readonly standbys: Standby[];
  private turn = 0;
  private nextCheck?: NodeJS.Timeout;
  private isStopping = false;

  constructor(
    private readonly primary: Pool,
    @Inject(Environment) environment: Environment,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    const { DATABASE_READ_URL: url } = environment;
    this.standbys = (url === undefined ? [] : hostsOf(url)).map(
      (one) => new Standby(one, environment),
    );
  }

  /**
   * @throws OperatorError if a server is not a standby of this primary or ignores session settings, as poolers do, or
   *   if the role lacks `pg_read_all_stats`.
   */
  async onModuleInit(): Promise<void> {
    if (this.standbys.length > 0) {
      await this.check();
      const refusal = this.standbys.find(({ reason }) => reason instanceof OperatorError)?.reason;
      if (refusal !== undefined) {
        this.onApplicationShutdown();
        throw refusal;
      }
    }
  }

  /** Does not wait until the connections are closed: with a standby that hangs, that might never happen. */
  onApplicationShutdown(): void {
    this.isStopping = true;
    clearTimeout(this.nextCheck);
    this.standbys.forEach((standby) => void standby.close().catch(() => {}));
  }

  /** The `host:port` of each standby. `reason` says why it is not used; it is undefined if the standby is used. */
  get states(): { server: string; reason?: string }[] {
    return this.standbys.map(({ server, reason }) => ({ server, reason: reason?.message }));
  }

  /** Runs `work`, which only reads. If it fails on a standby, runs it again on the primary. */
  read<T>(work: Read<T>): Promise<T> {
    const inUse = this.standbys.filter(({ reason }) => reason === undefined);
    return inUse.length === 0
      ? this.readOnPrimary(work)
      : this.readOn(inUse[this.turn++ % inUse.length]!, work);
  }

  private readOnPrimary<T>(work: Read<T>): Promise<T> {
    this.reads.primary += 1;
    return work(this.primary);
  }

  private async readOn<T>(standby: Standby, work: Read<T>): Promise<T> {
    const position = await this.position();
    if (position !== undefined) {
      try {
        const result = await standby.read(position, work);
        this.reads.standby += 1;
        return result;
      } catch (error) {
        this.note(standby, error as Error);
      }
    }
    return this.readOnPrimary(work);
  }

  /** `undefined` if the server of `DATABASE_URL` is in recovery. */
  private async position(): Promise<Position | undefined> {
    return (await run<Position>(this.primary, PRIMARY_POSITION))[0];
  }

  /**
   * Checks all standbys. If the primary cannot be reached, their state stays as it is, and reads fail with its error.
   */
  private async check(): Promise<void> {
    try {
      const [[identity]] = (await run(this.primary, SERVER_IDENTITY)) as [[string]];
      const position = await this.position();
      await Promise.all(
        this.standbys.map(async (standby) => {
          standby.identity = identity;
          this.note(
            standby,
            position === undefined
              ? new Error('the server of DATABASE_URL is not a primary')
              : await standby.read(position, async () => undefined).catch((error: Error) => error),
          );
        }),
      );
    } catch (error) {
      this.logger.debug({ reason: String(error) }, 'Standbys could not be checked');
    }
    if (!this.isStopping) {
      this.nextCheck = setTimeout(() => void this.check(), CHECK_EVERY).unref();
    }
  }

  private note(standby: Standby, reason: Error | undefined): void {
    const { server, reason: before } = standby;
    standby.reason = reason;
    if (reason === undefined && before !== undefined) {
      this.logger.info({ standby: server }, 'Reads go to the standby');
    } else if (reason !== undefined && (before === undefined || before === NOT_CHECKED)) {
      const { message, code } = reason as NodeJS.ErrnoException;
      this.logger.warn(
        { standby: server, reason: message || code },
        'Reads do not go to the standby',
      );
    }
  }
}

const NOT_CHECKED = new Error('not checked yet');

class Standby {
  /** `host:port`, or the folder of a Unix socket. */
  readonly server: string;
  /** Why the standby is not used. */
  reason: Error | undefined = NOT_CHECKED;
  /** The primary's {@link SERVER_IDENTITY}. */
  identity = '';

  private dataSource?: DataSource;
  private readonly verified = new WeakSet<PoolClient>();

  constructor(
    private readonly url: string,
    private readonly environment: Environment,
  ) {
    const { host, searchParams } = new URL(url);
    this.server = searchParams.get('host') ?? host;
  }

  /** @throws if `work` may not run on this standby, and whatever `work` throws. */
  async read<T>(position: Position, work: Read<T>): Promise<T> {
    this.dataSource ??= await this.connect();
    const session = await poolOf(this.dataSource).connect();
    try {
      if (!this.verified.has(session)) {
        await this.verify(session);
        this.verified.add(session);
      }
      const [[hasReplayed]] = (await run(session, STANDBY_HAS_REPLAYED, position)) as [[boolean]];
      if (!hasReplayed) {
        throw new Error('it is behind the primary, or is no longer its standby');
      }
      return await work(session);
    } finally {
      session.release();
    }
  }

  async close(): Promise<void> {
    const { dataSource } = this;
    this.dataSource = undefined;
    await dataSource?.destroy();
  }

  private connect(): Promise<DataSource> {
    const { DATABASE_READ_URL_FILE, DATABASE_POOL_SIZE } = this.environment;
    const urlNow = () => secretOf('DATABASE_READ_URL', { DATABASE_READ_URL_FILE }) ?? this.url;
    return standbyDataSource(this.url, DATABASE_POOL_SIZE, urlNow).initialize();
  }

  private async verify(session: PoolClient): Promise<void> {
    const [[identity, mayReadStats, role, hasSettings]] = (await run(session, SERVER_IDENTITY)) as [
      [identity: string, mayReadStats: boolean, role: string, hasSettings: boolean],
    ];
    if (identity !== this.identity) {
      throw new OperatorError(
        `The server ${this.server} of DATABASE_READ_URL is not a standby of the server of DATABASE_URL, or the URL names another database or schema.`,
      );
    }
    if (!mayReadStats) {
      throw new OperatorError(
        `The role of DATABASE_READ_URL may not see what its standby receives. On the primary, run: grant pg_read_all_stats to ${role};`,
      );
    }
    if (!hasSettings) {
      throw new OperatorError(
        `The server ${this.server} of DATABASE_READ_URL ignores settings of the service's sessions, as poolers do. Name the standby itself.`,
      );
    }
  }
}
