import { connect, type Socket } from 'node:net';
import { Pool, type PoolClient, type PoolConfig } from 'pg';
import { serialize } from 'pg-protocol';

/**
 * Time-outs of the connections that serve requests, in milliseconds. What a request waits for is under 2 seconds each, so
 * that what hangs when the database comes back does not keep the service from noticing.
 */
const DATABASE_TIMEOUTS = {
  /** For a connection: a free one of the pool, or a new one. */
  connection: 1_000,
  /** For a statement, watched by PostgreSQL. */
  statement: 1_500,
  /** For a word from PostgreSQL while it has a statement: covers what that does not bound, and one that hangs. */
  silence: 1_750,
  /** Silence on a connection before TCP asks whether the other side is still there. */
  keepAlive: 10_000,
} as const;

/**
 * Settings of the sessions that serve requests. `jit` is off: the cost estimated for a batch crosses its threshold,
 * and compiling takes 100 ms where running takes one. A prepared statement is planned once, for any values, and
 * never as a scan of the whole table, which looks cheap on a table that was small when it was planned. Where the role's
 * default isolates transactions more, a statement for many requests would fail for one of them.
 */
const SESSION = {
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  default_transaction_isolation: 'read\\ committed',
  statement_timeout: DATABASE_TIMEOUTS.statement,
};

/**
 * The connections that serve requests. Each is opened when it is needed.
 *
 * @param url a `postgres://` URL; its parameters, TLS among them, are pg's (`sslmode`, `sslrootcert`, …).
 * @param size the most connections.
 */
export function servingPool(url: string, size: number): Pool {
  const pool = openPool({
    connectionString: withSessionSettings(url),
    application_name: APPLICATION_NAME,
    max: size,
    // A server that has come to a halt would not end idle connections, and keep the process from ending.
    allowExitOnIdle: true,
    connectionTimeoutMillis: DATABASE_TIMEOUTS.connection,
    keepAlive: true,
    keepAliveInitialDelayMillis: DATABASE_TIMEOUTS.keepAlive,
  });
  endSilence(pool);
  return pool;
}

/** A connection for what people do, and for what a start does before it serves: it may take its time. */
export function administrativePool(url: string): Pool {
  return openPool(administrativeConfig(url));
}

export function administrativeConfig(url: string): PoolConfig {
  return {
    connectionString: url,
    application_name: APPLICATION_NAME,
    max: 1,
    connectionTimeoutMillis: 10_000,
  };
}

function openPool(config: PoolConfig): Pool {
  const pool = new Pool(config);
  // Of a connection that breaks while nobody uses it. The pool has dropped it; whoever asks next gets another.
  pool.on('error', () => {});
  return pool;
}

/** What PostgreSQL calls this service's sessions, in `pg_stat_activity` and in its log. */
export const APPLICATION_NAME = 'animal-store';

/**
 * Ends a connection that has been silent for too long about a statement. The others are likely to be silent too: those
 * that wait in the pool are dropped, so that the next statements do not find out one by one.
 *
 * The sockets watch themselves. pg's `query_timeout` makes a timer for each statement, and V8 takes all that one leads
 * to for old, and in use.
 */
function endSilence(pool: Pool): void {
  const idle = new Set<PoolClient>();
  pool.on('acquire', (client) => idle.delete(client));
  pool.on('remove', (client) => idle.delete(client));
  pool.on('release', (error, client) => {
    if (!error) {
      idle.add(client);
    }
  });
  pool.on('connect', (client) => {
    const { stream } = (client as Session).connection;
    stream.setTimeout(DATABASE_TIMEOUTS.silence).on('timeout', () => {
      if (!idle.has(client)) {
        cancelStatement(client as Session);
        stream.destroy(
          Object.assign(new Error('PostgreSQL did not answer in time'), { code: 'ETIMEDOUT' }),
        );
        // pg-pool notices, and forgets them.
        idle.forEach((one) => (one as Session).connection.stream.destroy());
      }
    });
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

/** Adds {@link SESSION} to the `options` that the URL may have, and that pg would otherwise let win. */
function withSessionSettings(url: string): string {
  const changed = new URL(url);
  const settings = Object.entries(SESSION).map(([name, value]) => `-c ${name}=${value}`);
  const options = [changed.searchParams.get('options') ?? [], settings].flat().join(' ');
  changed.searchParams.set('options', options);
  return changed.href;
}
