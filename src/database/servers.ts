import { Client, type ClientBase, type ClientConfig, type PoolConfig } from 'pg';
import { READ_ONLY, sqlState } from '../errors/database-error.js';

/** Milliseconds for a connection to one server, and for what it says of itself. */
const CONNECTION_TIMEOUT = 2_000;

/**
 * The URLs of the servers that a URL of libpq names, its hosts separated by commas, one for each; without
 * `target_session_attrs=read-write`, which says that one of them takes writes, none (PostgreSQL, section 34.1.1.3).
 */
export function serversOf(url: string): string[] {
  const [, before, hosts = '', after] = /^(\w+:\/\/(?:[^/?]*@)?)([^/?]*)(.*)$/s.exec(url) ?? [];
  const rest = after?.replace(/(?<=[?&])target_session_attrs=read-write(&|$)/, '');
  return rest === after ? [] : hosts.split(',').map((host) => `${before}${host}${rest}`);
}

type Connected = ((error: Error) => void) | ((error: null, client: Client) => void);

/** @throws an error that says so if the server is read-only, or does not respond to the question in time. */
async function requireWritable(client: ClientBase): Promise<void> {
  // What pg's types leave out. The pool's time-out ends when the session is open.
  const question = { text: 'show transaction_read_only', query_timeout: CONNECTION_TIMEOUT };
  const { rows } = await client.query(question).catch((cause: Error) => {
    throw Object.assign(cause, { code: sqlState(cause) ?? 'ETIMEDOUT' });
  });
  if (rows[0].transaction_read_only === 'on') {
    throw Object.assign(new Error('The server is read-only'), { code: READ_ONLY });
  }
}

/**
 * @returns the first of `servers` that takes writes.
 * @throws whatever connecting to the last of them throws, if none does.
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
 * What makes a pool connect to the one of `servers` that takes writes: to the next of them after one that cannot be
 * reached, or takes none. Whoever waited for that connection gets its error.
 *
 * @param BaseClient is given the URL of the server to connect to.
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

    /** Makes it the next server's turn, unless it is so already. */
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
