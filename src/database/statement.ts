import type { Pool } from 'pg';
import type { ServingPool } from './pool.js';

/**
 * A statement that is prepared once a connection, under its name: PostgreSQL would parse and plan one without a name anew
 * each time, which takes longer than running it. Where a pooler shares the sessions, there is no other way.
 */
export interface Statement {
  name: string;
  text: string;
}

/**
 * Runs `statement` on a free connection of `pool`. Rejects with pg's error.
 *
 * @returns its rows, each an array of its columns in the statement's order.
 */
export async function run<Columns extends unknown[]>(
  pool: Pool,
  { name: ownName, text }: Statement,
  values: unknown[] = [],
): Promise<Columns[]> {
  const name = (pool as ServingPool).sharesSessions ? undefined : ownName;
  const { rows } = await pool.query<Columns>({ name, text, values, rowMode: 'array' });
  return rows;
}
