import { Pool, type PoolClient, type PoolConfig } from 'pg';
import { NoSessionError, READ_ONLY, sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { processIdOf } from './servers.js';
import { run, Statement } from './statement.js';

/**
 * Time-outs of the connections that serve requests, in milliseconds. All are under 2 seconds, so that connections that
 * still hang when the database responds again do not delay the recovery.
 */
export const DATABASE_TIMEOUTS = {
  /** For a connection, an idle one of the pool or a new one, and for the first response of a new one. */
  connection: 1_000,
  /** For a statement, as PostgreSQL's `statement_timeout`. */
  statement: 1_500,
  /** For each use of a session: it also covers commits, which `statement_timeout` does not limit. */
  use: 1_750,
  /** After a session could not be opened, while others exist. Statements wait for those. */
  reopening: 1_000,
  /** For the response of an idle session, after another session did not respond in time. */
  proof: 250,
  /** Silence on a connection before TCP sends a keep-alive probe. */
  keepAlive: 10_000,
  /** For a connection to a standby, and for each use of it: short, because the primary then serves the read. */
  standby: 250,
} as const;

export interface ServingPoolConfig extends PoolConfig {
  sharesSessions?: boolean;
  /** Milliseconds; {@link DATABASE_TIMEOUTS} has the default. */
  use?: number;
  /** Whether `onConnect` throws if the server is read-only. */
  isForWrites?: boolean;
}

/** Ends sessions by process id, unless a new one has it. Only the role that logged in may do this, not one that is set. */
export const END_SESSIONS = new Statement(
  'end-sessions',
  `
  select case set_config('role', 'none', true)
           when 'none'
           then (select pg_terminate_backend(pid)
                   from pg_stat_activity
                  where pid = given and usename = session_user and query_start < now() - interval '1 second')
         end
    from unnest($1::int[]) as given`,
);

type Connected = Parameters<Pool['connect']>[0];

/**
 * A pool that closes a session that is in use for too long, and then checks idle ones before a statement gets them. If a
 * session cannot be opened, the statement gets one that exists.
 */
export class ServingPool extends Pool {
  private readonly deadlines = new WeakMap<PoolClient, NodeJS.Timeout>();
  /** The process ids of the closed sessions that PostgreSQL may not have ended. */
  private readonly abandoned = new Set<number>();
  readonly size = this.options.max;
  /** Runs from the last session on that could not be opened. */
  private reopening?: NodeJS.Timeout;

  constructor(readonly config: ServingPoolConfig) {
    super(config);
    // An idle session broke, which the pool replaces, or one that TypeORM has not added its listener to yet.
    this.on('error', () => {});
    this.on('connect', (client) => {
      client.on('error', () => {});
      this.options.max = this.size;
    });
    this.on('acquire', (client) => this.limit(client, config.use ?? DATABASE_TIMEOUTS.use));
    this.on('release', (error, client) => {
      clearTimeout(this.deadlines.get(client));
      if (sqlState(error) === READ_ONLY) {
        this.leaveReadOnly();
      }
    });
  }

  /** @throws NoSessionError; OperatorError if there is a pooler that is not expected. Nothing was sent then. */
  override connect(): Promise<PoolClient>;
  override connect(done: Connected): void;
  override connect(done?: Connected): Promise<PoolClient> | void {
    if (done === undefined) {
      return new Promise((resolve, reject) => {
        this.connect((error, client) => (client === undefined ? reject(error) : resolve(client)));
      });
    }
    const finish: Connected = (error, client, release) =>
      error === undefined || error instanceof OperatorError
        ? done(error, client, release)
        : done(new NoSessionError(error), undefined, release);
    super.connect((error, client, release) => {
      // pg-pool adds its own error if the time is over.
      const isNotOpened = [error, error?.cause].some((one) => one instanceof NoSessionError);
      if (isNotOpened && this.totalCount > 0) {
        this.stopOpening();
        super.connect(finish);
      } else {
        finish(error, client, release);
      }
    });
  }

  /** For a while, as many sessions as exist are enough. pg-pool opens none if it has its maximum, or more. */
  private stopOpening(): void {
    this.options.max = 1;
    const resume = () => (this.options.max = this.size);
    this.reopening =
      this.reopening?.refresh() ?? setTimeout(resume, DATABASE_TIMEOUTS.reopening).unref();
  }

  /** Called if the server is read-only. Of several servers, the one that accepts writes replaces it. */
  leaveReadOnly(): void {
    if (this.config.isForWrites) {
      this.checkIdle();
    }
  }

  /** Closes the session if it is still in use after `milliseconds`. The statement that it runs fails. */
  private limit(client: PoolClient, milliseconds: number): void {
    clearTimeout(this.deadlines.get(client));
    const close = () => {
      // pg-pool does not use an ended session again.
      void client.end();
      this.checkIdle();
      // A pooler reports numbers of its own.
      if (!this.config.sharesSessions) {
        this.abandoned.add(processIdOf(client));
        this.endAbandoned().catch(() => {});
      }
    };
    this.deadlines.set(client, setTimeout(close, milliseconds));
  }

  /** Takes each idle session from the pool until it responds, and closes those that do not. */
  private checkIdle(): void {
    for (let { idleCount } = this; idleCount > 0; idleCount -= 1) {
      this.connect((_error, client, release) => {
        if (client !== undefined) {
          this.limit(client, DATABASE_TIMEOUTS.proof);
          Promise.resolve(this.config.onConnect!(client)).then(() => release(), release);
        }
      });
    }
  }

  /** PostgreSQL does not notice that a client has left while its commit waits, perhaps forever, for a lost standby. */
  private async endAbandoned(): Promise<void> {
    const ids = [...this.abandoned];
    await run(this, END_SESSIONS, [ids]);
    ids.forEach((id) => this.abandoned.delete(id));
  }
}
