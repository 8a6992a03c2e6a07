import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { PoolClient } from 'pg';
import { ENGINE, type Engine } from '../database/engine.js';
import { Lane } from '../database/lane.js';
import { ServingPool } from '../database/pool.js';
import { ApiError } from '../errors/api-error.js';
import type { HttpAdapter } from '../http/http-adapter.js';
import { isServable } from '../schema/distribution.js';
import { SchemaMonitor } from '../schema/schema-monitor.js';
import { Standbys } from '../standbys/standbys.js';

/** Whether this process, and the database's state, tables and rights, can serve listPets, createPet and getPet. */
@Injectable()
export class HealthService {
  /** Probes that wait for the database share the response. */
  private readonly probes: Lane<string, string[]>;

  constructor(
    private readonly schema: SchemaMonitor,
    private readonly pool: ServingPool,
    private readonly standbys: Standbys,
    private readonly host: HttpAdapterHost<HttpAdapter>,
    @Inject(ENGINE) private readonly engine: Engine,
  ) {
    const ask = async (_: unknown, session: PoolClient) => [await this.obstaclesOn(session)];
    const options = { keyOf: (probe: string) => probe, statementsPerLane: 1 };
    this.probes = new Lane(pool.share('health'), ask, options);
  }

  /** @throws ApiError `unavailable` */
  async ready(deadline: number) {
    if (this.host.httpAdapter.isStopping) {
      throw new ApiError('unavailable', 'The service is stopping.');
    }
    const obstacles = await this.probes.ask('probe', deadline).catch((cause: unknown) => {
      throw new ApiError('unavailable', 'The database cannot be used; try again.', { cause });
    });
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

  /** What keeps the database from serving. */
  private async obstaclesOn(session: PoolClient): Promise<string[]> {
    const { rows } = await session.query('show transaction_read_only');
    if (rows[0].transaction_read_only === 'on') {
      this.pool.leaveReadOnly();
      return ['The database is read-only.'];
    }
    if (!(await isServable(this.engine, session))) {
      return ['The tables were distributed after this process started: restart it.'];
    }
    const findings = await this.schema.findings(session);
    return findings.filter(({ isError }) => isError).map(({ message }) => message);
  }
}
