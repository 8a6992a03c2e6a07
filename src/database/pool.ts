import { connect, type Socket } from 'node:net';
import { Pool, type PoolClient, type PoolConfig } from 'pg';
import { serialize } from 'pg-protocol';
import { READ_ONLY, sqlState } from '../errors/database-error.js';
import type { StatementForm } from './statement.js';

/**
 * Time-outs of the connections that serve requests, in milliseconds. A request waits for each of them for less than 2
 * seconds. So connections that still hang when the database responds again do not delay the service's recovery.
 */
export const DATABASE_TIMEOUTS = {
  /** For a connection: an idle one of the pool, or a new one. */
  connection: 1_000,
  /** For a statement, as PostgreSQL's `statement_timeout`. */
  statement: 1_500,
  /**
   * For any data from PostgreSQL while a statement runs. It covers commits, which `statement_timeout` does not limit,
   * and a server that hangs.
   */
  silence: 1_750,
  /** Silence on a connection before TCP sends a keep-alive probe. */
  keepAlive: 10_000,
} as const;

/**
 * The same for the connections to standbys. After a time-out, the primary serves the read. So these are shorter than
 * the time that a request may wait for its batch.
 */
export const STANDBY_TIMEOUTS = { connection: 250, silence: 250 } as const;

export interface ServingPoolConfig extends PoolConfig {
  /**
   * Whether a pooler shares sessions among its clients. Prepared statements of one client would then collide with
   * another's.
   */
  sharesSessions?: boolean;
  /** The statements, by name, that run in another form on this engine. */
  forms?: ReadonlyMap<string, StatementForm>;
  /** Milliseconds; {@link DATABASE_TIMEOUTS} has the default. */
  silence?: number;
}

/**
 * A pool that closes a connection if PostgreSQL sends nothing for too long while a statement runs. Idle connections are
 * likely to hang too. The pool closes them as well, so that the next statements do not wait for each of them.
 *
 * It uses the time-out of the socket. pg's `query_timeout` would create a timer for each statement, and the objects
 * that a timer refers to would survive in V8's old generation.
 */
export class ServingPool extends Pool {
  readonly sharesSessions: boolean;
  readonly forms?: ReadonlyMap<string, StatementForm>;
  private readonly idle = new Set<PoolClient>();
  private readonly hasSeveralServers: boolean;

  constructor(config: ServingPoolConfig) {
    super(config);
    this.sharesSessions = config.sharesSessions ?? false;
    this.forms = config.forms;
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
      // TypeORM adds its listener only after it gets the connection. PostgreSQL may close the connection before that.
      client.on('error', () => {});
      endSilence(client as Session, idle, config.silence ?? DATABASE_TIMEOUTS.silence);
    });
  }

  /**
   * Called if the server is read-only. If there are several servers, new connections then look for one that accepts
   * writes.
   */
  leaveReadOnly(): void {
    if (this.hasSeveralServers) {
      endAll(this.idle);
    }
  }
}

/** Closes the sockets. pg-pool then removes the clients. */
function endAll(idle: Set<PoolClient>): void {
  idle.forEach((one) => (one as Session).connection.stream.destroy());
}

function endSilence(client: Session, idle: Set<PoolClient>, after: number): void {
  const { stream } = client.connection;
  stream.setTimeout(after).on('timeout', () => {
    if (!idle.has(client)) {
      cancelStatement(client);
      stream.destroy(
        Object.assign(new Error('PostgreSQL did not respond in time'), { code: 'ETIMEDOUT' }),
      );
      endAll(idle);
    }
  });
}

/**
 * Asks PostgreSQL to cancel a statement that no request waits for any more. `statement_timeout` does not limit a
 * commit, which may wait for a standby that is gone. PostgreSQL does not notice that the client has left, so sessions
 * would accumulate. The cancel request uses a separate connection, and PostgreSQL accepts it without TLS (PostgreSQL,
 * section 55.2.8). Errors are ignored: if PostgreSQL cannot be reached, there is nothing to cancel.
 */
function cancelStatement({ host, port, processID, secretKey }: Session): void {
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  socket.on('error', () => {});
  socket.setTimeout(DATABASE_TIMEOUTS.connection, () => socket.destroy());
  socket.end(serialize.cancel(processID, secretKey));
}

/** Members that pg's types lack. */
type Session = PoolClient & {
  connection: { stream: Socket };
  host: string;
  port: number;
  processID: number;
  secretKey: number;
};
