import { Pool, type PoolClient, type PoolConfig } from 'pg';
import {
  NoSessionError,
  READ_ONLY,
  SessionTimeoutError,
  sqlState,
} from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { DATABASE_LIMITS } from './limits.js';
import type { Sessions } from './servers.js';
import { run, type SessionSource, Statement, withSession } from './statement.js';

export interface ServingPoolConfig extends PoolConfig {
  /** Milliseconds; {@link DATABASE_LIMITS} has the defaults. */
  use?: number;
  waiting?: number;
  /** Which servers `onConnect` accepts. */
  target?: Sessions['target'];
}

/**
 * Ends sessions by process id, each of which was closed so many milliseconds ago, unless a new one has it. Only the role
 * that logged in may do this, not one that is set.
 */
export const END_SESSIONS = new Statement(
  'end-sessions',
  `
  select case set_config('role', 'none', true)
           when 'none'
           then (select pg_terminate_backend(pid)
                   from pg_stat_activity
                  where pid = closed and usename = session_user
                    and backend_start < now() - age * interval '1 millisecond')
         end
    from unnest($1::int[], $2::float8[]) as given (closed, age)`,
);

/** The sessions of statements that one lock may keep waiting. */
export interface Share extends SessionSource {
  readonly name: string;
  readonly module: string;
  inUse: number;
}

/**
 * A pool of whose sessions each share has one within reach, whatever others do: it gets a further one only if enough stay
 * free for the shares that have none. With fewer sessions than shares, that holds for modules: each leaves one to others.
 *
 * It closes a session that is in use for too long, and then checks idle ones before a statement gets them. If a session
 * cannot be opened, the statement gets one that exists.
 */
export class ServingPool extends Pool {
  readonly size = this.options.max;
  /** How many there may be: fewer than {@link size} for a while after one could not be opened. */
  private limit = this.size;
  private reopening?: NodeJS.Timeout;
  readonly shares = new Map<string, Share>();
  /** The sessions of what uses the pool itself, as TypeORM does. */
  private readonly others = this.share('others');
  /** Who waits for a session, in the order in which they came. */
  readonly waiting = new Map<() => void, Share>();
  private readonly uses = new WeakMap<PoolClient, { share?: Share; timeout: NodeJS.Timeout }>();
  /** The process ids of the closed sessions that PostgreSQL may not have ended. */
  private readonly abandoned = new Map<number, number>();

  constructor(readonly config: ServingPoolConfig) {
    super(config);
    // An idle session broke, which the pool replaces, or one that TypeORM has not added its listener to yet.
    this.on('error', () => {});
    this.on('connect', (client) => {
      client.on('error', () => {});
      this.resumeOpening();
    });
    this.on('release', (error, client) => {
      const { share, timeout } = this.uses.get(client) ?? {};
      this.uses.delete(client);
      clearTimeout(timeout);
      this.leave(share);
      if (sqlState(error) === READ_ONLY) {
        this.leaveReadOnly();
      }
    });
  }

  /** @param module whose shares leave a session to others together, if there are few. */
  share(name: string, module = name): Share {
    const connect = (): Promise<PoolClient> => this.connectFor(share);
    const share: Share = this.shares.get(name) ?? { name, module, inUse: 0, connect };
    this.shares.set(name, share);
    return share;
  }

  /** @throws NoSessionError; OperatorError if there is a pooler that is not expected. Nothing was sent then. */
  override connect(done?: Parameters<Pool['connect']>[0]): any {
    const session = this.others.connect();
    if (done === undefined) {
      return session;
    }
    session.then(
      (client) => done(undefined, client, client.release),
      (error: Error) => done(error, undefined, () => {}),
    );
  }

  private async connectFor(share: Share): Promise<PoolClient> {
    if (this.isFreeFor(share)) {
      share.inUse += 1;
    } else {
      await this.turnOf(share);
    }
    try {
      const session = await super.connect();
      this.closeAfter(this.config.use ?? DATABASE_LIMITS.use, session, share);
      return session;
    } catch (error) {
      this.leave(share);
      // Also pg-pool's own error, if the time is over.
      const isNotOpened = !(error instanceof OperatorError) && !this.ending;
      if (isNotOpened && this.totalCount > 0) {
        this.stopOpening();
        return this.connectFor(share);
      }
      throw error instanceof OperatorError ? error : new NoSessionError(error);
    }
  }

  private isFreeFor(share: Share): boolean {
    const all = [...this.shares.values()];
    const areFew = this.limit < all.length;
    const inUse = (isCounted: (one: Share) => boolean) =>
      all.filter(isCounted).reduce((sum, one) => sum + one.inUse, 0);
    const own = inUse((one) => one === share || (areFew && one.module === share.module));
    const without = areFew ? 1 : all.filter((one) => one.inUse === 0).length;
    return this.limit - inUse(() => true) > (own === 0 ? 0 : without);
  }

  private turnOf(share: Share): Promise<void> {
    return new Promise((resolve, reject) => {
      const timeout = setTimeout(() => {
        this.waiting.delete(begin);
        reject(new NoSessionError('All sessions for these operations are in use.'));
      }, this.config.waiting ?? DATABASE_LIMITS.waiting);
      const begin = () => {
        clearTimeout(timeout);
        this.waiting.delete(begin);
        share.inUse += 1;
        resolve();
      };
      this.waiting.set(begin, share);
    });
  }

  /** Lets those begin who now may, after this share has returned a session. */
  private leave(share?: Share): void {
    if (share !== undefined) {
      share.inUse -= 1;
    }
    for (const [begin, one] of this.waiting) {
      if (this.isFreeFor(one)) {
        begin();
      }
    }
  }

  /** For a while, as many sessions as exist are enough. */
  private stopOpening(): void {
    this.limit = this.totalCount;
    this.reopening =
      this.reopening?.refresh() ??
      setTimeout(() => this.resumeOpening(), DATABASE_LIMITS.reopening).unref();
  }

  private resumeOpening(): void {
    this.limit = this.size;
    this.leave();
  }

  /** Called if the server is read-only. Of several servers, the one that accepts writes replaces it. */
  leaveReadOnly(): void {
    if (this.config.target === 'read-write') {
      // The session that found it out is idle by then.
      setImmediate(() => this.checkIdle());
    }
  }

  /** Closes the session if it is still in use after `milliseconds`. The statement that it runs fails. */
  private closeAfter(milliseconds: number, client: PoolClient, share?: Share): void {
    const close = () => {
      // What runs fails with the reason, and pg-pool does not use a broken session again.
      client.connection.stream.destroy(new SessionTimeoutError(milliseconds));
      this.checkIdle();
      // A pooler reports numbers of its own.
      if (!client.isShared) {
        this.abandoned.set(client.processID, performance.now());
        this.endAbandoned().catch(() => {});
      }
    };
    this.uses.set(client, { share, timeout: setTimeout(close, milliseconds) });
  }

  /** Takes each idle session from the pool until it responds, and closes those that do not. */
  private checkIdle(): void {
    for (let { idleCount } = this; idleCount > 0; idleCount -= 1) {
      super.connect((_error, client, release) => {
        if (client !== undefined) {
          this.closeAfter(DATABASE_LIMITS.proof, client);
          Promise.resolve(this.config.onConnect!(client)).then(() => release(), release);
        }
      });
    }
  }

  /** PostgreSQL does not notice that a client has left while its commit waits, perhaps forever, for a lost standby. */
  private async endAbandoned(): Promise<void> {
    const closed = [...this.abandoned];
    const ids = closed.map(([id]) => id);
    await withSession(this.others, (session) => {
      const ages = closed.map(([, at]) => performance.now() - at);
      return run(session, END_SESSIONS, [ids, ages]);
    });
    ids.forEach((id) => this.abandoned.delete(id));
  }
}
