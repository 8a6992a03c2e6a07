import { setTimeout as wait } from 'node:timers/promises';
import { Controller, Get, Optional } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Pool } from 'pg';
import { DataSource } from 'typeorm';
import { Public } from '../auth/public.decorator.js';
import type { ServingPool } from '../database/pool.js';
import { ApiError } from '../errors/api-error.js';
import type { HttpAdapter } from '../http/http-adapter.js';
import { Metrics } from '../metrics/metrics.js';
import { SchemaMonitor } from '../schema/schema.module.js';
import { Standbys } from '../standbys/standbys.js';

@Public()
@Controller('health')
export class HealthController {
  /** What keeps the database from serving, while it is asked: probes that come meanwhile share the response. */
  private asked?: Promise<string[]>;

  constructor(
    private readonly dataSource: DataSource,
    private readonly schema: SchemaMonitor,
    private readonly pool: Pool,
    private readonly standbys: Standbys,
    private readonly host: HttpAdapterHost<HttpAdapter>,
    /** Only if there is METRICS_PORT. */
    @Optional() metrics?: Metrics,
  ) {
    metrics?.gauge('ready', 'Whether the process is ready, as of this scrape: 1, or 0.', () => {
      const isReady = this.ready().then(Boolean, () => false);
      // A scrape waits for 1 second at most: Prometheus would drop all of it.
      return Promise.race([isReady, wait(1_000, false, { ref: false })]).then(Number);
    });
  }

  /** 200 whenever the process can respond. If there is no response, restart the process. */
  @Get('live')
  live() {
    return { status: 'live' };
  }

  /** 200 if listPets, createPet and getPet can be served: by this process, and by the database's state, tables and rights. */
  @Get('ready')
  async ready() {
    if (this.host.httpAdapter.isStopping) {
      throw new ApiError('unavailable', 'The service is stopping.');
    }
    const obstacles = await (this.asked ??= this.askDatabase());
    if (obstacles.length > 0) {
      throw new ApiError('unavailable', obstacles.join(' '));
    }
    const standbys = this.standbys.states;
    if (standbys.length === 0) {
      return { status: 'ready' };
    }
    const inUse = standbys.filter(({ reason }) => reason === undefined).length;
    const reads = inUse === 0 ? 'primary' : 'standbys';
    return { status: 'ready', reads, standbys: standbys.length, standbysInUse: inUse };
  }

  private async askDatabase(): Promise<string[]> {
    try {
      const [{ transaction_read_only }] = await this.dataSource.query('show transaction_read_only');
      if (transaction_read_only === 'on') {
        (this.pool as ServingPool).leaveReadOnly();
        return ['The database is read-only.'];
      }
      const findings = await this.schema.findings();
      return findings.filter(({ isError }) => isError).map(({ message }) => message);
    } catch (cause) {
      throw new ApiError('unavailable', 'The database cannot be used; try again.', { cause });
    } finally {
      this.asked = undefined;
    }
  }
}
