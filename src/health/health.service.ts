import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import type { PoolClient } from 'pg';
import { ENGINE, type Engine } from '../database/engine.js';
import { Lane } from '../database/lane.js';
import { ServingPool } from '../database/pool.js';
import { ApiError } from '../errors/api-error.js';
import { unavailableCause } from '../errors/database-error.js';
import { OperatorError } from '../errors/operator-error.js';
import { SchemaMonitor } from '../schema/schema-monitor.js';
import { type Finding, REFUSAL } from '../schema/schema-state.js';
import { Standbys } from '../standbys/standbys.js';

/** Seconds. The response may take two, or be read late. */
const CLOCK_TOLERANCE = 5;

type Obstacle = Pick<Finding, 'message'> & { about: Finding['about'] | 'writes' | 'engine' };

/** Whether Citus distributes the pets. It puts this trigger on each table that it distributes. */
const IS_DISTRIBUTED = `
  select exists (select from pg_trigger
                  where tgrelid = to_regclass('pets') and tgfoid = to_regproc('citus_truncate_trigger')) as "isDistributed"`;

/** What all nodes answer together, as a list. */
export const ASK_ALL = 'select id from pets limit 1';

/** What strangers read. The other messages are such sentences. */
const SENTENCES: Partial<Record<Obstacle['about'], string>> & Record<Finding['about'], string> = {
  schema: 'The tables of the database are not those that the service looks for.',
  migrations: 'The database has pending migrations.',
  tables: 'The tables are not what their migrations make.',
  rights: 'The database role lacks rights.',
};

/** Whether this process, and the database's state, tables and rights, can serve listPets, createPet and getPet. */
@Injectable()
export class HealthService implements OnModuleDestroy {
  /** Readiness is then 503, so that proxies send further requests elsewhere. */
  isStopping = false;

  /** Probes that wait for the database share the response. */
  private readonly probes: Lane<string, Obstacle[]>;

  constructor(
    private readonly schema: SchemaMonitor,
    private readonly pool: ServingPool,
    private readonly standbys: Standbys,
    @Inject(ENGINE) private readonly engine: Engine,
  ) {
    const ask = async (_: unknown, session: PoolClient) => [await this.obstaclesOn(session)];
    const options = { keyOf: (probe: string) => probe, statementsPerLane: 1 };
    this.probes = new Lane(pool.share('health'), ask, options);
  }

  onModuleDestroy(): void {
    this.isStopping = true;
  }

  /** Seconds by which this machine's clock is ahead of the database's; `undefined` if that is few, or not known yet. */
  clockAhead?: number = undefined;

  /** @throws ApiError `unavailable` */
  async ready(deadline: number) {
    if (this.isStopping) {
      throw new ApiError('unavailable', 'The service is stopping.', { because: 'stopping' });
    }
    const obstacles = await this.probes.ask('probe', deadline).catch((cause: unknown) => {
      const because = cause instanceof ApiError ? cause.options.because : unavailableCause(cause);
      throw new ApiError('unavailable', 'The database cannot be used; try again.', {
        cause,
        because,
      });
    });
    if (obstacles.length > 0) {
      // Strangers read the response. What to do about it, with names of roles and schemas, is in the log and in `check`.
      const kinds = obstacles.map(({ about, message }) => SENTENCES[about] ?? message);
      const cause = new OperatorError(obstacles.map(({ message }) => message).join(' '));
      const because = obstacles.some(({ about }) => about === 'writes') ? 'read_only' : 'not_ready';
      throw new ApiError('unavailable', [...new Set(kinds)].join(' '), { cause, because });
    }
    const { states } = this.standbys;
    const standbysInUse = states.filter(({ reason }) => reason === undefined).length;
    const reads = standbysInUse === 0 ? 'primary' : 'standbys';
    return {
      status: 'ready',
      clockAhead: this.clockAhead,
      ...(states.length > 0 && { reads, standbys: states.length, standbysInUse }),
    };
  }

  /** What keeps the database from serving. */
  private async obstaclesOn(session: PoolClient): Promise<Obstacle[]> {
    const { rows } = await session.query(REFUSAL);
    // No duration: the setting of this machine's clock is what is compared.
    const seconds = Math.round(Date.now() / 1000 - rows[0].now);
    this.clockAhead = Math.abs(seconds) > CLOCK_TOLERANCE ? seconds : undefined;
    if (rows[0].reason !== null) {
      this.pool.leaveReadOnly();
      return [{ about: 'writes', message: rows[0].reason }];
    }
    if (this.engine === 'citus') {
      // Rejects if a node is away.
      await session.query(ASK_ALL);
    } else if ((await session.query(IS_DISTRIBUTED)).rows[0].isDistributed) {
      const message = 'The tables were distributed after this process started: restart it.';
      return [{ about: 'engine', message }];
    }
    const errors = (await this.schema.findings(session)).filter(({ isError }) => isError);
    if (errors.some(({ about }) => about === 'schema')) {
      // It keeps the search_path with which it began. That of the role may have changed since, with the schema's name.
      session.connection.stream.destroy(new Error('The session does not see the tables.'));
    }
    return errors;
  }
}
