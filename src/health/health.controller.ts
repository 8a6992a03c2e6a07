import { Controller, Get } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Pool } from 'pg';
import type { ServingPool } from '../database/pool.js';
import { DataSource } from 'typeorm';
import { Public } from '../auth/public.decorator.js';
import { Batcher } from '../database/batcher.js';
import { pendingMigrations } from '../database/bookkeeping.js';
import { missingRights } from '../database/rights.js';
import { Standbys } from '../database/standbys.js';
import { ApiError } from '../errors/api-error.js';
import { sqlState } from '../errors/database-error.js';
import type { HttpAdapter } from '../http/http-adapter.js';

/** SQLSTATEs (PostgreSQL, appendix A). */
const DISK_FULL = '53100';
const INSUFFICIENT_PRIVILEGE = '42501';

/**
 * Milliseconds for which a statement that found no room on the database's disk is remembered: that it is full shows
 * only when something is written, and requests may be kept away as long as readiness says no.
 */
const DISK_FULL_FOR = 1_500;

/** For whatever starts, restarts and routes to this process. No key is needed. */
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

  /** When the last statement found the disk full: `performance.now()`. */
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

  /** 200 while the process responds at all; if it does not, it is to be restarted. */
  @Get('live')
  live() {
    return { status: 'live' };
  }

  /** 200 while requests can be served: the database responds, accepts writes, is migrated and allows what they need. */
  @Get('ready')
  async ready() {
    if (this.host.httpAdapter.isStopping) {
      throw new ApiError('unavailable', 'The service is stopping.');
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
