import { Controller, Get } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Pool } from 'pg';
import { Public } from '../auth/public.decorator.js';
import { Batcher } from '../database/batcher.js';
import { pendingMigrations } from '../database/pending-migrations.js';
import { ApiError } from '../errors/api-error.js';
import type { HttpAdapter } from '../http/http-adapter.js';

/** For whatever starts, restarts and routes to this process. No key is needed. */
@Public()
@Controller('health')
export class HealthController {
  /** However many ask, the database is asked once. */
  private readonly states = new Batcher(async (asking: undefined[]) => {
    const state = await this.databaseState().catch((cause: unknown) => {
      throw new ApiError('unavailable', 'The database cannot be used; try again.', { cause });
    });
    return asking.map(() => state);
  });

  constructor(
    private readonly pool: Pool,
    private readonly host: HttpAdapterHost<HttpAdapter>,
  ) {}

  /** 200 while the process answers at all: a failure means "restart me". */
  @Get('live')
  live() {
    return { status: 'live' };
  }

  /** 200 while requests can be served: the database answers, takes writes and is migrated; else 503. */
  @Get('ready')
  async ready() {
    if (this.host.httpAdapter.isStopping) {
      throw new ApiError('unavailable', 'The service is stopping.');
    }
    const { isReadOnly, pending } = await this.states.ask(undefined);
    if (isReadOnly) {
      throw new ApiError('unavailable', 'The database is read-only.');
    }
    if (pending.length > 0) {
      throw new ApiError('unavailable', 'The database has pending migrations.');
    }
    return { status: 'ready' };
  }

  private async databaseState() {
    const { rows } = await this.pool.query<{ transaction_read_only: string }>(
      'show transaction_read_only',
    );
    return {
      isReadOnly: rows[0]!.transaction_read_only === 'on',
      pending: await pendingMigrations(this.pool),
    };
  }
}
