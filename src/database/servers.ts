import { Client, type ClientConfig, Pool, type PoolConfig } from 'pg';
import { hostsOf, passwordIn } from '../config/database-url.js';
import { NoSessionError } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { DATABASE_LIMITS } from './limits.js';

/** What pg's types lack. */
declare module 'pg' {
  interface ClientBase {
    /** Which the server, or a pooler, told at the start of the session. */
    readonly processID: number;
    /** Whether a pooler shares it among clients, whose prepared statements would collide. */
    readonly isShared?: boolean;
  }
  interface QueryConfig {
    query_timeout?: number;
  }
}

/** Changes the settings `$2` to `$3` and puts the migrations' schema first, unless a pooler's process id is not `$1`. */
const OPEN = `select pg_backend_pid() as pid, current_setting('transaction_read_only') = 'on' as "isReadOnly",
       pg_is_in_recovery() as "isStandby",
       (select count(set_config(name, value, false))
          from (select * from unnest($2::text[], $3::text[]) union all
                select 'search_path', relnamespace::regnamespace || ', ' || current_setting('search_path')
                  from pg_class
                 where oid = to_regclass('migrations')
                   and not starts_with(current_setting('search_path'), relnamespace::regnamespace || ', ')) as setting (name, value)
         where pg_backend_pid() = $1::int) as changed`;

export interface Sessions {
  /** If a server cannot be reached or is refused, the next connection tries the next one. */
  urls: string[];
  /** Milliseconds for a connection, and for the response to {@link OPEN}. */
  timeout: number;
  /** Settings of the sessions; missing if a pooler is expected. */
  settings?: Record<string, string>;
  /**
   * As libpq's `target_session_attrs`: a standby is refused, whose reads may be stale, as those of an old primary behind a
   * balancer; with `read-write`, also a server that is read-only. Any server without this.
   */
  target?: 'primary' | 'read-write';
  /** A file with a URL, whose password, when the session is opened, replaces that of {@link urls}. */
  passwordFile?: string;
}

/** How a pool opens its sessions. `onConnect` throws an OperatorError if there is a pooler that is not expected. */
export function connectingTo(sessions: Sessions): PoolConfig & Pick<Sessions, 'target'> {
  const { urls, timeout, settings, target, passwordFile } = sessions;
  let current = 0;
  /** That of the file, when it last had one. */
  let password: string | undefined;
  class ServerClient extends Client {
    private readonly server = current;
    override readonly isShared = settings === undefined;
    /** Why there are no parameters to connect with: a file of the URL is missing. */
    private readonly failure: unknown;

    constructor(config?: ClientConfig) {
      try {
        super({ ...config, connectionString: urls[current] });
      } catch (error) {
        // The pool expects errors only from `connect`.
        super(config);
        this.failure = error;
      }
      const known = this.password;
      if (passwordFile !== undefined) {
        // pg calls it when the server asks. Its types have it in the configuration only, where the URL overrides it.
        const latest = () => (password = passwordIn(passwordFile, this.user) ?? password) ?? known;
        Object.assign(this, { password: latest });
      }
    }

    /** Calls `done` with a NoSessionError if the server cannot be reached or refuses the session. */
    override connect(done: (...error: any[]) => void = () => {}): any {
      const fail = (cause: unknown) => {
        // pg leaves it open if TLS cannot begin, for example with a key that does not match its certificate.
        this.connection.stream.destroy();
        this.leave();
        done(new NoSessionError(cause));
      };
      if (this.failure !== undefined) {
        return process.nextTick(fail, this.failure);
      }
      super.connect((error?: Error) => (error ? fail(error) : done()));
    }

    /** Selects the next server, unless another connection has already done so. */
    leave(): void {
      if (this.server === current) {
        current = (current + 1) % urls.length;
      }
    }
  }
  const onConnect: PoolConfig['onConnect'] = async (client) => {
    const { host, port, processID } = client as ServerClient;
    const values = [processID, Object.keys(settings ?? {}), Object.values(settings ?? {})];
    // The pool's time-out ends when the session is open.
    const question = { text: OPEN, values, query_timeout: timeout };
    const { rows } = await client.query(question).catch((cause: Error) => {
      throw new NoSessionError(cause);
    });
    const [{ pid, isReadOnly, isStandby }] = rows;
    if (settings !== undefined && pid !== processID) {
      throw new OperatorError(
        `There is a pooler at ${host}:${port}, which shares sessions among its clients. ` +
          'Connect to PostgreSQL itself, or for DATABASE_URL set DATABASE_POOLER=transaction.',
      );
    }
    if (target === 'read-write' ? isReadOnly : target === 'primary' && isStandby) {
      (client as ServerClient).leave();
      const what = isStandby ? 'a standby' : 'read-only';
      throw new NoSessionError(`The server is ${what}`, 'read_only');
    }
  };
  return { Client: ServerClient, onConnect, connectionTimeoutMillis: timeout, target };
}

/** A URL for each server of a libpq URL with `target_session_attrs=read-write` (PostgreSQL, section 34.1.1.3); else none. */
export function serversOf(url: string): string[] {
  const rest = url.replace(/(?<=[?&])target_session_attrs=read-write(&|$)/, '');
  return rest === url ? [] : hostsOf(rest);
}

/** The one of `servers` that accepts writes. @throws AggregateError with the error of each, if none does. */
export const writableOf = (servers: string[]): Promise<string> =>
  Promise.any(
    servers.map(async (url) => {
      const timeout = DATABASE_LIMITS.choosing;
      const pool = new Pool(connectingTo({ urls: [url], timeout, target: 'read-write' }));
      (await pool.on('error', () => {}).connect()).release(true);
      return url;
    }),
  );
