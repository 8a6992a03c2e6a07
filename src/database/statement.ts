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
}

/** Set by Metrics. Is told of each statement that ended: its name, milliseconds on its session, and the requests that it was for. */
export const statements: { observe?: (name: string, ms: number, requests: number) => void } = {};

/** Calls `work` with a session. It is closed afterwards if it may be busy. Rejects as `work`, and without a session. */
export async function withSession<T>(
  sessions: SessionSource,
  work: (session: PoolClient) => Promise<T>,
): Promise<T> {
  const session = await sessions.connect();
  try {
    const result = await work(session);
    session.release();
    return result;
  } catch (error) {
    // PostgreSQL reports an error before it rolls back, and responds to the next statement when the locks are free.
    const isUsable = isRefusedValue(error) && (await session.query('').catch(() => undefined));
    session.release(isUsable ? undefined : (error as Error));
    throw error;
  }
}

/** Runs `statement`, for so many requests. Rejects with pg's error. */
export async function run<Columns extends unknown[]>(
  session: PoolClient,
  statement: Statement,
  values: unknown[] = [],
  requests = 0,
): Promise<Columns[]> {
  // pg copies a query's own members one by one, which takes long, and reads inherited ones where they are.
  const query: QueryArrayConfig = Object.create(statement);
  if (session.isShared) {
    query.name = undefined;
  }
  const start = performance.now();
  const ended = () => statements.observe?.(statement.name, performance.now() - start, requests);
  return (await session.query<Columns>(query, values).finally(ended)).rows;
}

/** Runs a statement whose rows begin with the position of their request, from 1. @returns the rest of each row, if any. */
export async function runForEach<Columns extends unknown[]>(
  session: PoolClient,
  statement: Statement,
  columns: unknown[][],
  requests = columns[0]!.length,
): Promise<(Columns | undefined)[]> {
  type Row = [position: number, ...Columns];
  const rows = await run<Row>(session, statement, columns, requests);
  const found: (Columns | undefined)[] = columns[0]!.map(() => undefined);
  for (const [position, ...rest] of rows) {
    found[position - 1] = rest;
  }
  return found;
}

export const query = <Columns extends unknown[]>(
  session: PoolClient,
  text: string,
  values: unknown[] = [],
): Promise<Columns[]> => run(session, new Statement('', text), values);

/** Calls `work` in a transaction. It is rolled back if `work` throws or returns `undefined`. */
export async function inTransaction<T>(
  session: PoolClient,
  work: () => Promise<T | undefined>,
): Promise<T | undefined> {
  await session.query('begin');
  try {
    const result = await work();
    await session.query(result === undefined ? 'rollback' : 'commit');
    return result;
  } catch (error) {
    // After another error than that of a value, the session is closed, and PostgreSQL rolls back.
    await session.query('rollback').catch(() => {});
    throw error;
  }
}
