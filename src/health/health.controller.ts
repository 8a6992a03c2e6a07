import { Controller, Get } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Pool } from 'pg';
import type { ServingPool } from '../database/pool.js';
import { DataSource } from 'typeorm';
import { Public } from '../auth/public.decorator.js';
import { Batcher } from '../database/batcher.js';
import { pendingMigrations } from '../schema/bookkeeping.js';
import { missingRights } from '../schema/rights.js';
import { Standbys } from '../standbys/standbys.js';
import { ApiError } from '../errors/api-error.js';
import { sqlState } from '../errors/database-error.js';
import type { HttpAdapter } from '../http/http-adapter.js';

/** SQLSTATEs (PostgreSQL, appendix A). */
const DISK_FULL = '53100';
const INSUFFICIENT_PRIVILEGE = '42501';

/**
 * Milliseconds for which readiness is 503 after a statement failed because the database's disk was full. The time is
 * limited: only a write shows whether there is room again, and balancers may send none while readiness is 503.
 */
const DISK_FULL_FOR = 1_500;

/** Liveness and readiness, for supervisors, orchestrators and balancers. No key is needed. */
@Public()
@Controller('health')
export class HealthController {
  /** The database is asked once for all requests that wait. */
  private readonly states = new Batcher('readiness', async (asking: undefined[]) => {
    const state = await this.databaseState().catch((cause: unknown) => {
      throw new ApiError('unavailable', 'The database cannot be used; try again.', { cause });
    });
    return asking.map(() => state);
  });

  /** When a statement last failed because the disk was full: `performance.now()`. */
  private diskFullAt = -Infinity;

  constructor(
    private readonly dataSource: DataSource,
    private readonly pool: Pool,
    private readonly standbys: Standbys,
    private readonly host: HttpAdapterHost<HttpAdapter>,
  ) {
    pool.on('release', (error: unknown) => {
      if (sqlState(error) === DISK_FULL) {
        this.diskFullAt = performance.now();
      }
    });
  }

  /** 200 whenever the process can respond. If there is no response, restart the process. */
  @Get('live')
  live() {
    return { status: 'live' };
  }

  /**
   * 200 if requests can be served: the service is not stopping, the database responds and accepts writes, no migration
   * is pending, and the role has the rights that the service needs.
   */
  @Get('ready')
  async ready() {
    if (this.host.httpAdapter.isStopping) {
      throw new ApiError('unavailable', 'The service is stopping.', { isExpected: true });
    }
    const { isReadOnly, pending, missing } = await this.states.ask(undefined);
    if (isReadOnly) {
      throw new ApiError('unavailable', 'The database is read-only.');
    }
    if (performance.now() - this.diskFullAt < DISK_FULL_FOR) {
      throw new ApiError('unavailable', "The database's disk is full.");
    }
    if (pending.length > 0) {
      throw new ApiError('unavailable', 'The database has pending migrations.');
    }
    if (missing.length > 0) {
      throw new ApiError('unavailable', `The database role lacks: ${missing.join(', ')}.`);
    }
    const standbys = this.standbys.states;
    if (standbys.length === 0) {
      return { status: 'ready' };
    }
    const inUse = standbys.filter(({ reason }) => reason === undefined).length;
    const reads = inUse === 0 ? 'primary' : 'standbys';
    return { status: 'ready', reads, standbys: standbys.length, standbysInUse: inUse };
  }

  private async databaseState() {
    const [{ transaction_read_only }] = await this.dataSource.query('show transaction_read_only');
    const missing = await missingRights(this.dataSource);
    const pending = await pendingMigrations(this.dataSource).catch((error: unknown) => {
      if (sqlState(error) === INSUFFICIENT_PRIVILEGE && missing.length > 0) {
        return [];
      }
      throw error;
    });
    const isReadOnly = transaction_read_only === 'on';
    if (isReadOnly) {
      (this.pool as ServingPool).leaveReadOnly();
    }
    return { isReadOnly, pending, missing };
  }
}
