import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { ServingPool } from '../database/pool.js';
import { ApiError } from '../errors/api-error.js';
import type { HttpAdapter } from '../http/http-adapter.js';
import { SchemaMonitor } from '../schema/schema-monitor.js';
import { Standbys } from '../standbys/standbys.js';

/** Whether this process, and the database's state, tables and rights, can serve listPets, createPet and getPet. */
@Injectable()
export class HealthService {
  /** What keeps the database from serving, while it is asked: probes that come meanwhile share the response. */
  private obstacles?: Promise<string[]>;

  constructor(
    private readonly dataSource: DataSource,
    private readonly schema: SchemaMonitor,
    private readonly pool: ServingPool,
    private readonly standbys: Standbys,
    private readonly host: HttpAdapterHost<HttpAdapter>,
  ) {}

  /** @throws ApiError `unavailable` */
  async ready() {
    if (this.host.httpAdapter.isStopping) {
      throw new ApiError('unavailable', 'The service is stopping.');
    }
    const obstacles = await (this.obstacles ??= this.askDatabase());
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
      type Row = { transaction_read_only: 'on' | 'off' };
      const [row] = await this.dataSource.query<[Row]>('show transaction_read_only');
      if (row.transaction_read_only === 'on') {
        this.pool.leaveReadOnly();
        return ['The database is read-only.'];
      }
      const findings = await this.schema.findings();
      return findings.filter(({ isError }) => isError).map(({ message }) => message);
    } catch (cause) {
      throw new ApiError('unavailable', 'The database cannot be used; try again.', { cause });
    } finally {
      this.obstacles = undefined;
    }
  }
}
