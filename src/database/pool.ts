import { connect, type Socket } from 'node:net';
import { Pool, type PoolClient, type PoolConfig } from 'pg';
import { serialize } from 'pg-protocol';
import { READ_ONLY, sqlState } from '../errors/database-error.js';

/**
 * Time-outs of the connections that serve requests, in milliseconds. What a request waits for is under 2 seconds each, so
 * that what hangs when the database comes back does not keep the service from noticing.
 */
export const DATABASE_TIMEOUTS = {
  /** For a connection: a free one of the pool, or a new one. */
  connection: 1_000,
  /** For a statement, watched by PostgreSQL. */
  statement: 1_500,
  /** For a word from PostgreSQL while it has a statement: covers what that does not bound, and one that hangs. */
  silence: 1_750,
  /** Silence on a connection before TCP asks whether the other side is still there. */
  keepAlive: 10_000,
} as const;

export interface ServingPoolConfig extends PoolConfig {
  /** Whether a pooler shares sessions among its clients: what one prepared, another would run, or prepare again. */
  sharesSessions?: boolean;
}

/**
 * A pool that ends a connection that has been silent for too long about a statement. The others are likely to be silent too: those
 * that wait in the pool are dropped, so that the next statements do not find out one by one.
 *
 * The sockets watch themselves. pg's `query_timeout` makes a timer for each statement, and V8 takes all that one leads
 * to for old, and in use.
 */
export class ServingPool extends Pool {
  readonly sharesSessions: boolean;
  private readonly idle = new Set<PoolClient>();
  private readonly hasSeveralServers: boolean;

  constructor(config: ServingPoolConfig) {
    super(config);
    this.sharesSessions = config.sharesSessions ?? false;
    this.hasSeveralServers = config.onConnect !== undefined;
    const { idle } = this;
    this.on('acquire', (client) => idle.delete(client));
    this.on('remove', (client) => idle.delete(client));
    this.on('release', (error, client) => {
      if (!error) {
        idle.add(client);
      } else if (sqlState(error) === READ_ONLY) {
        this.leaveReadOnly();
      }
    });
    this.on('connect', (client) => {
      // TypeORM listens a moment after it is given a connection; one that PostgreSQL ends in between has no other listener.
      client.on('error', () => {});
      endSilence(client as Session, idle);
    });
  }

  /** The server was found read-only: new connections look for another one, if there are several. */
  leaveReadOnly(): void {
    if (this.hasSeveralServers) {
      endAll(this.idle);
    }
  }
}

/** pg-pool notices, and forgets them. */
function endAll(idle: Set<PoolClient>): void {
  idle.forEach((one) => (one as Session).connection.stream.destroy());
}

function endSilence(client: Session, idle: Set<PoolClient>): void {
  const { stream } = client.connection;
  stream.setTimeout(DATABASE_TIMEOUTS.silence).on('timeout', () => {
    if (!idle.has(client)) {
      cancelStatement(client);
      stream.destroy(
        Object.assign(new Error('PostgreSQL did not answer in time'), { code: 'ETIMEDOUT' }),
      );
      endAll(idle);
    }
  });
}

/**
 * Has PostgreSQL give up a statement that nobody waits for any more. `statement_timeout` does not bound a commit, which
 * may wait for a standby that is gone: sessions would become ever more, because PostgreSQL does not see that the client
 * has left. The request goes over a connection of its own, and PostgreSQL takes it without TLS (its documentation, part
 * 55.2.8); where it does not come through there is nothing to give up.
 */
function cancelStatement({ host, port, processID, secretKey }: Session): void {
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  socket.on('error', () => {});
  socket.setTimeout(DATABASE_TIMEOUTS.connection, () => socket.destroy());
  socket.end(serialize.cancel(processID, secretKey));
}

/** What pg's types leave out. */
type Session = PoolClient & {
  connection: { stream: Socket };
  host: string;
  port: number;
  processID: number;
  secretKey: number;
};
