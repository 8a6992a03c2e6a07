import type { Pool, PoolClient } from 'pg';
import type { ServingPool } from './pool.js';

/**
 * A statement that is prepared under its name once per connection. Without a name, PostgreSQL would parse and plan it
 * each time, which takes longer than running it. If a pooler shares the sessions, the statement is not prepared.
 */
export interface Statement {
  name: string;
  text: string;
}

/** Another form of a statement, for an engine that does not run its text: takes the same values, returns the same rows. */
export type StatementForm = (pool: Pool, values: any) => Promise<unknown[][]>;

/**
 * Runs `statement` on a free connection of a pool, or on one session. Rejects with pg's error.
 *
 * @returns its rows, each an array of its columns in the statement's order.
 */
export async function run<Columns extends unknown[]>(
  sessions: Pool | PoolClient,
  { name: ownName, text }: Statement,
  values: unknown[] = [],
): Promise<Columns[]> {
  const form = (sessions as ServingPool).forms?.get(ownName);
  if (form !== undefined) {
    return (await form(sessions as Pool, values)) as Columns[];
  }
  const name = (sessions as ServingPool).sharesSessions ? undefined : ownName;
  const { rows } = await sessions.query<Columns>({ name, text, values, rowMode: 'array' });
  return rows;
}
