import type { PoolClient } from 'pg';
import type { ServingPool } from '../../src/database/pool.js';
import type { SessionSource } from '../../src/database/statement.js';

/** Sessions of no server. A statement has the result of `query`. */
export function fakeSessions(query: (...args: any[]) => unknown = () => undefined) {
  const session = { query: async (...args: unknown[]) => query(...args), release() {} };
  const sessions: SessionSource = { connect: async () => session as unknown as PoolClient };
  return sessions;
}

/** A pool whose shares all have these sessions. */
export const poolWith = (sessions: SessionSource) =>
  ({ share: () => sessions }) as unknown as ServingPool;

/** `performance.now()` of a request that may wait for as long as a test. */
export const LATER = 600_000_000;
