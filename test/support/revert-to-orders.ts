import { MIGRATION_NAMES } from '../../migrations/index.js';
import { ask } from './ask.js';
import { revertLast } from './database.js';

/** Its down migration drops a table, which is what some tests are about. */
export const CREATE_ORDERS = 'CreateOrders1795222800000';

/** It, and what comes before it. */
export const UP_TO_ORDERS = MIGRATION_NAMES.slice(0, MIGRATION_NAMES.indexOf(CREATE_ORDERS) + 1);

/** Reverts what was applied after it, whatever later versions add. */
export async function revertToOrders(url: string): Promise<void> {
  for (const _later of MIGRATION_NAMES.slice(UP_TO_ORDERS.length)) {
    await revertLast(url);
  }
}

/** Reverts it alone, so that a service can go on with what later migrations added. */
export async function revertOrders(url: string): Promise<void> {
  // As if it were applied last.
  const last = 'select max(id) + 1 from migrations';
  await ask(url, `update migrations set id = (${last}) where name = '${CREATE_ORDERS}'`);
  await revertLast(url);
}
