import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import type { PoolClient } from 'pg';
import { ServingPool } from '../database/pool.js';
import { withSession } from '../database/statement.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import { type Finding, findingsOf } from './schema-state.js';

/** Compares the database with what this code needs, and logs what it lacks, and the remedy, once for each change. */
@Injectable()
export class SchemaMonitor implements OnModuleInit {
  warnings = 0;
  private logged = '';

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
    const findings = await findingsOf({ query });
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
}
