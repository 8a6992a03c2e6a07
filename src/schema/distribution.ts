import type { PoolClient } from 'pg';
import type { Engine } from '../database/engine.js';

/** Whether Citus distributes the pets. It puts this trigger on each table that it distributes. */
const IS_DISTRIBUTED = `
  select exists (select from pg_trigger
                  where tgrelid = to_regclass('pets') and tgfoid = to_regproc('citus_truncate_trigger')) as "isDistributed"`;

/** Which the nodes answer together. */
export const ASK_ALL = 'select id from pets limit 1';

/** Whether a process with the classes of `engine` can serve the pets. Rejects if a node is away: a list asks all of them. */
export async function isServable(engine: Engine, session: PoolClient): Promise<boolean> {
  if (engine === 'citus') {
    await session.query(ASK_ALL);
    return true;
  }
  return !(await session.query(IS_DISTRIBUTED)).rows[0].isDistributed;
}
