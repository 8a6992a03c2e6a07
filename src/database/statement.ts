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

/** A statement for an engine that does not run its text: takes the same values, returns the same rows. */
export type StatementForm = (sessions: SessionSource, values: any) => Promise<unknown[][]>;

/** How the sessions of a pool differ from PostgreSQL's own. */
export interface SessionTraits {
  /** Whether a pooler shares them among its clients, whose prepared statements would collide. */
  readonly sharesSessions?: boolean;
  /** The statements, by name, that run in another form on this engine. */
  readonly forms?: ReadonlyMap<string, StatementForm>;
}

/** A pool, or a share of it. */
export interface SessionSource {
  connect(): Promise<PoolClient>;
  readonly config?: SessionTraits;
}

/** Runs `statement` on a free session, or on the one that is given. Rejects with pg's error. */
export async function run<Columns extends unknown[]>(
  sessions: SessionSource | PoolClient,
  statement: Statement,
  values: unknown[] = [],
): Promise<Columns[]> {
  const source = sessions as SessionSource;
  const form = source.config?.forms?.get(statement.name);
  if (form !== undefined) {
    return (await form(source, values)) as Columns[];
  }
  // pg copies a query's own members one by one, which takes long, and reads inherited ones where they are.
  const query: QueryArrayConfig = Object.create(statement);
  if (source.config?.sharesSessions) {
    query.name = undefined;
  }
  if ('release' in sessions) {
    return (await sessions.query<Columns>(query, values)).rows;
  }
  const session = await sessions.connect();
  try {
    const { rows } = await session.query<Columns>(query, values);
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
): Promise<(Columns | undefined)[]> {
  const rows = await run<[position: number, ...Columns]>(sessions, statement, columns);
  const found: (Columns | undefined)[] = columns[0]!.map(() => undefined);
  for (const [position, ...rest] of rows) {
    found[position - 1] = rest;
  }
  return found;
}
