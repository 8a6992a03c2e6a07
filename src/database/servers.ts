import { Client, type ClientBase, type ClientConfig, type PoolConfig } from 'pg';
import { hostsOf } from '../config/database-url.js';
import { READ_ONLY, sqlState } from '../errors/database-error.js';

/** Milliseconds for a connection to one server, and for its response whether it is read-only. */
const CONNECTION_TIMEOUT = 2_000;

/**
 * The URLs of the servers that a libpq URL names, one for each. Empty without `target_session_attrs=read-write`, which
 * selects the server that accepts writes (PostgreSQL, section 34.1.1.3).
 */
export function serversOf(url: string): string[] {
  const rest = url.replace(/(?<=[?&])target_session_attrs=read-write(&|$)/, '');
  return rest === url ? [] : hostsOf(rest);
}

type Connected = ((error: Error) => void) | ((error: null, client: Client) => void);

/** @throws if the server is read-only, or does not respond in time. */
async function requireWritable(client: ClientBase): Promise<void> {
  // `query_timeout` is missing in pg's types. The pool's time-out covers only the time until the session is open.
  const question = { text: 'show transaction_read_only', query_timeout: CONNECTION_TIMEOUT };
  const { rows } = await client.query(question).catch((cause: Error) => {
    throw Object.assign(cause, { code: sqlState(cause) ?? 'ETIMEDOUT' });
  });
  if (rows[0].transaction_read_only === 'on') {
    throw Object.assign(new Error('The server is read-only'), { code: READ_ONLY });
  }
}

/**
 * @returns the first of `servers` that accepts writes.
 * @throws the error of the last server, if no server accepts writes.
 */
export async function writableOf(servers: string[]): Promise<string> {
  let last: unknown;
  for (const connectionString of servers) {
    const client = new Client({ connectionString, connectionTimeoutMillis: CONNECTION_TIMEOUT });
    client.on('error', () => {});
    try {
      await client.connect();
      await requireWritable(client);
      return connectionString;
    } catch (error) {
      last = error;
    } finally {
      client.end().catch(() => {});
    }
  }
  throw last;
}

/**
 * Configures a pool to connect to the one of `servers` that accepts writes. After a server that cannot be reached or is
 * read-only, the next connection tries the next server. The request that waited for the failed connection gets its
 * error.
 *
 * @param BaseClient gets the URL of the server to connect to.
 */
export function connectingToWritable(servers: string[], BaseClient: typeof Client): PoolConfig {
  let current = 0;
  class ServerClient extends BaseClient {
    private readonly server = current;

    constructor(config?: ClientConfig) {
      super({ ...config, connectionString: servers[current]! });
    }

    override connect(): Promise<Client>;
    override connect(callback: Connected): void;
    override connect(callback?: Connected): Promise<Client> | void {
      if (callback === undefined) {
        return super.connect().catch((error: Error) => {
          this.leave();
          throw error;
        });
      }
      super.connect((error: Error | null) => {
        if (error) {
          this.leave();
        }
        callback(error as never, this);
      });
    }

    /** Selects the next server, unless another connection has already done so. */
    leave(): void {
      if (this.server === current) {
        current = (current + 1) % servers.length;
      }
    }
  }
  return {
    Client: ServerClient,
    onConnect: async (client) => {
      try {
        await requireWritable(client);
      } catch (error) {
        (client as ServerClient).leave();
        throw error;
      }
    },
  };
}
