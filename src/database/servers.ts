import { Client, type ClientBase, type ClientConfig, Pool, type PoolConfig } from 'pg';
import { hostsOf, parsable } from '../config/database-url.js';
import { READ_ONLY, sqlState } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';

/** Milliseconds, as {@link Sessions.timeout}, to find the server that accepts writes. */
const TIMEOUT = 2_000;

/**
 * The first statement of a session. Changes the settings whose names and values are in `$2` and `$3`, unless the
 * process id is not `$1`: then it is the session of a pooler, and others will use it.
 */
const OPEN = `select pg_backend_pid() as pid, current_setting('transaction_read_only') = 'on' as "isReadOnly",
       (select count(set_config(name, value, false))
          from unnest($2::text[], $3::text[]) as setting (name, value)
         where pg_backend_pid() = $1::int) as changed`;

export interface Sessions {
  /**
   * URLs of servers. After one that cannot be reached or is refused, the next connection tries the next one. The request
   * that waited for the failed connection gets its error.
   */
  urls: string[];
  /** Milliseconds for a connection, and for the response to {@link OPEN}. */
  timeout: number;
  /** Returns a URL with the current role and password. If it throws, a session uses those of its own URL. */
  urlNow?: () => string;
  /** Settings of the sessions. Sessions without them may be those of a pooler. */
  settings?: Record<string, string>;
  /** Whether the sessions must accept writes. */
  isForWrites?: boolean;
}

/**
 * Configures how a pool opens its sessions.
 *
 * `onConnect` throws an OperatorError if there is a pooler: it gives a client the sessions of several processes of
 * PostgreSQL, so the process id that it reports is another one.
 */
export function connectingTo({
  urls,
  timeout,
  urlNow,
  settings,
  isForWrites,
}: Sessions): PoolConfig {
  let current = 0;
  class ServerClient extends Client {
    private readonly server = current;

    constructor(config?: ClientConfig) {
      super({ ...config, connectionString: withCredentials(urls[current]!, urlNow) });
      const leave = () => this.leave();
      this.once('end', leave).once('connect', () => this.off('end', leave));
    }

    /** Selects the next server, unless another connection has already done so. */
    leave(): void {
      if (this.server === current) {
        current = (current + 1) % urls.length;
      }
    }
  }
  const onConnect = async (client: ClientBase): Promise<void> => {
    const { processID, host, port } = client as ClientBase & { processID: number } & Client;
    const values = [processID, Object.keys(settings ?? {}), Object.values(settings ?? {})];
    // `query_timeout` is missing in pg's types. The pool's time-out covers only the time until the session is open.
    const question = { text: OPEN, values, query_timeout: timeout };
    const { rows } = await client.query(question).catch((cause: Error) => {
      throw Object.assign(cause, { code: sqlState(cause) ?? 'ETIMEDOUT' });
    });
    const [{ pid, isReadOnly }] = rows;
    if (settings !== undefined && pid !== processID) {
      throw new OperatorError(
        `There is a pooler at ${host}:${port}, which shares sessions among its clients. ` +
          'Connect to PostgreSQL itself, or for DATABASE_URL set DATABASE_POOLER=transaction.',
      );
    }
    if (isForWrites && isReadOnly) {
      (client as ServerClient).leave();
      throw Object.assign(new Error('The server is read-only'), { code: READ_ONLY });
    }
  };
  return { Client: ServerClient, onConnect, connectionTimeoutMillis: timeout };
}

/** pg accepts a function as `password`, but a URL overrides it, even a URL without a password. */
function withCredentials(url: string, urlNow = () => url): string {
  try {
    const now = new URL(hostsOf(parsable(urlNow()))[0]!);
    const { username, password } = now;
    const changed = Object.assign(new URL(url), { username, password });
    // In a URL, the parameters `user` and `password` override the role and password before the host.
    for (const name of ['user', 'password']) {
      changed.searchParams.delete(name);
      now.searchParams.getAll(name).forEach((value) => changed.searchParams.set(name, value));
    }
    return changed.href;
  } catch {
    // The URL may come from a file that is just being written.
    return url;
  }
}

/**
 * The URLs of the servers that a libpq URL names, one for each. Empty without `target_session_attrs=read-write`, which
 * selects the server that accepts writes (PostgreSQL, section 34.1.1.3).
 */
export function serversOf(url: string): string[] {
  const rest = url.replace(/(?<=[?&])target_session_attrs=read-write(&|$)/, '');
  return rest === url ? [] : hostsOf(rest);
}

/**
 * @returns the first of `servers` that accepts writes.
 * @throws the error of the last server, if no server accepts writes.
 */
export async function writableOf(servers: string[]): Promise<string> {
  let last: unknown;
  for (const url of servers) {
    const pool = new Pool(connectingTo({ urls: [url], timeout: TIMEOUT, isForWrites: true }));
    pool.on('error', () => {});
    try {
      (await pool.connect()).release(true);
      return url;
    } catch (error) {
      last = error;
    }
  }
  throw last;
}
