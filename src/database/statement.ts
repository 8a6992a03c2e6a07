import type { PoolClient, QueryArrayConfig } from 'pg';
import { isRefusedValue } from '../errors/database-error.js';

/** A statement that is prepared once per connection, unless a pooler shares it. Planning takes longer than running it. */
export class Statement {
  /** Each row is an array of its columns. */
  readonly rowMode = 'array';

  constructor(
    readonly name: string,
    readonly text: string,
  ) {}
}

export interface SessionSource {
  connect(): Promise<PoolClient>;
  /** Whether a pooler shares its sessions among clients, whose prepared statements would collide. */
  readonly config?: { readonly sharesSessions?: boolean };
}

/** If set, is told of each statement that ended: its name, milliseconds on its session, and the requests that it was for. */
export const statements: { observe?: (name: string, ms: number, requests: number) => void } = {};

/** Runs `statement`, for so many requests, on a free session, or on the one that is given. Rejects with pg's error. */
export async function run<Columns extends unknown[]>(
  sessions: SessionSource | PoolClient,
  statement: Statement,
  values: unknown[] = [],
  requests = 0,
): Promise<Columns[]> {
  const source = sessions as SessionSource;
  // pg copies a query's own members one by one, which takes long, and reads inherited ones where they are.
  const query: QueryArrayConfig = Object.create(statement);
  if (source.config?.sharesSessions) {
    query.name = undefined;
  }
  const timed = async (session: PoolClient) => {
    const start = performance.now();
    const ended = () => statements.observe?.(statement.name, performance.now() - start, requests);
    return (await session.query<Columns>(query, values).finally(ended)).rows;
  };
  if ('release' in sessions) {
    return timed(sessions);
  }
  const session = await sessions.connect();
  try {
    const rows = await timed(session);
    session.release();
    return rows;
  } catch (error) {
    // PostgreSQL reports an error before it rolls back, and responds to the next statement when the locks are free.
    const isUsable = isRefusedValue(error) && (await session.query('').catch(() => undefined));
    session.release(isUsable ? undefined : (error as Error));
    throw error;
  }
}

/** Runs a statement whose rows begin with the position of their request, from 1. @returns the rest of each row, if any. */
export async function runForEach<Columns extends unknown[]>(
  sessions: SessionSource | PoolClient,
  statement: Statement,
  columns: unknown[][],
  requests = columns[0]!.length,
): Promise<(Columns | undefined)[]> {
  type Row = [position: number, ...Columns];
  const rows = await run<Row>(sessions, statement, columns, requests);
  const found: (Columns | undefined)[] = columns[0]!.map(() => undefined);
  for (const [position, ...rest] of rows) {
    found[position - 1] = rest;
  }
  return found;
}

export const query = <Columns extends unknown[]>(
  sessions: SessionSource | PoolClient,
  text: string,
  values: unknown[] = [],
): Promise<Columns[]> => run(sessions, new Statement('', text), values);

/** Calls `work` in a transaction. It is rolled back if `work` throws or returns `undefined`. */
export async function inTransaction<T>(
  sessions: SessionSource,
  work: (session: PoolClient) => Promise<T | undefined>,
): Promise<T | undefined> {
  const session = await sessions.connect();
  try {
    await session.query('begin');
    const result = await work(session);
    await session.query(result === undefined ? 'rollback' : 'commit');
    session.release();
    return result;
  } catch (error) {
    // Closes the session, as the pool does if a statement fails. PostgreSQL then rolls back.
    session.release(error as Error);
    throw error;
  }
}

/** As Promise.all, but rejects only when all have ended, so that none is repeated while it runs. */
export const allEnded = <T>(promises: readonly Promise<T>[]): Promise<T[]> =>
  Promise.allSettled(promises).then(() => Promise.all(promises));
