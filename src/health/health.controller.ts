import { Controller, Get } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Public } from '../auth/public.decorator.js';
import { pendingMigrations } from '../database/migrations.js';
import { ApiError } from '../errors/api-error.js';

/** For whatever starts, restarts and routes to this process. No key is needed. */
@Public()
@Controller('health')
export class HealthController {
  constructor(private readonly dataSource: DataSource) {}

  /** 200 while the process answers at all: a failure means "restart me". */
  @Get('live')
  live() {
    return { status: 'live' };
  }

  /** 200 while requests can be served: the database answers and is migrated; else 503. */
  @Get('ready')
  async ready() {
    const pending = await pendingMigrations(this.dataSource);
    if (pending.length > 0) {
      throw new ApiError('unavailable', 'The database has pending migrations.');
    }
    return { status: 'ready' };
  }
}
