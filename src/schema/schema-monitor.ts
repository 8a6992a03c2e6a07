import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import type { PoolClient } from 'pg';
import { DATABASE_LIMITS } from '../database/limits.js';
import { ServingPool } from '../database/pool.js';
import { withSession } from '../database/statement.js';
import { LOCK_TIMEOUT, sqlState } from '../errors/database-error.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import { type Finding, type Queries, stateOf } from './schema-state.js';
import { compareTables } from './tables.js';

/** Compares the database with what this code needs, and logs what it lacks, and the remedy, once for each change. */
@Injectable()
export class SchemaMonitor implements OnModuleInit {
  warnings = 0;
  private logged = '';
  private differences: Finding[] = [];
  /** `performance.now()` when the tables were compared, and what was applied then. */
  private comparedAt = -Infinity;
  private applied = '';

  constructor(
    private readonly pool: ServingPool,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  async onModuleInit(): Promise<void> {
    const { size, shares } = this.pool;
    if (size < shares.size) {
      const reason = `DATABASE_POOL_SIZE is ${size}, and should be ${shares.size} or more.`;
      this.logger.warn({ reason }, 'Operations and readiness may wait for locks of two modules');
    }
    // If the database is away, readiness says so.
    const look = (session: PoolClient) => this.findings(session);
    await withSession(this.pool.share('health'), look).catch(() => {});
  }

  async findings(session: PoolClient): Promise<Finding[]> {
    const query = async (sql: string, values?: unknown[]) =>
      (await session.query<any>(sql, values)).rows as any;
    const { applied, findings: others } = await stateOf({ query });
    const findings = [...others, ...(await this.compare({ query }, applied))];
    const warnings = findings.filter(({ isError }) => !isError);
    this.warnings = warnings.length;
    const reason = findings.map(({ message }) => message).join(' ');
    if (reason !== this.logged) {
      this.logged = reason;
      if (reason === '') {
        this.logger.info('The database has everything that the service uses');
      } else if (findings.length > warnings.length) {
        this.logger.error({ reason }, 'The database lacks something that operations on pets need');
      } else {
        const message = 'The database lacks something that no operation on pets needs';
        this.logger.warn({ reason }, message);
      }
    }
    return findings;
  }

  /** PostgreSQL needs 14 ms for it. While somebody locks a table, what was found before holds. */
  private async compare(queries: Queries, applied: readonly string[]) {
    const isWell = !this.differences.some(({ isError }) => isError);
    const isRecent = performance.now() < this.comparedAt + DATABASE_LIMITS.comparison;
    if (!isWell || !isRecent || String(applied) !== this.applied) {
      try {
        const lock = DATABASE_LIMITS.comparisonLock;
        this.differences = (await compareTables(queries, applied, lock)).differences;
        this.comparedAt = performance.now();
        this.applied = String(applied);
      } catch (error) {
        if (sqlState(error) !== LOCK_TIMEOUT) {
          throw error;
        }
      }
    }
    return this.differences;
  }
}
