import { Injectable } from '@nestjs/common';
import { Pool, type PoolClient } from 'pg';
import { NoSessionError } from '../errors/database-error.js';
import { DATABASE_TIMEOUTS, type ServingPool } from './pool.js';

/** The sessions that one module may use at a time: all but one, so that others find one if its tables are locked. */
@Injectable()
export class SessionShare {
  private readonly inUse = new Set<PoolClient>();
  private readonly waiting: (() => void)[] = [];
  private free: number;
  readonly config;

  constructor(private readonly pool: Pool) {
    const { size, config } = pool as ServingPool;
    this.free = Math.max(size - 1, 1);
    this.config = config;
    pool.on('release', (_error, session) => this.inUse.delete(session) && this.pass());
  }

  /** As the pool's. @throws NoSessionError, also if the others of this share are in use for too long. */
  async connect(): Promise<PoolClient> {
    if (this.free === 0) {
      await this.turn();
    } else {
      this.free -= 1;
    }
    try {
      const session = await this.pool.connect();
      this.inUse.add(session);
      return session;
    } catch (error) {
      this.pass();
      throw error;
    }
  }

  private turn(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timeout = setTimeout(() => {
        this.waiting.splice(this.waiting.indexOf(begin), 1);
        reject(new NoSessionError('All sessions for these operations are in use.'));
      }, DATABASE_TIMEOUTS.connection);
      const begin = () => {
        clearTimeout(timeout);
        resolve();
      };
      this.waiting.push(begin);
    });
  }

  private pass(): void {
    const next = this.waiting.shift();
    if (next === undefined) {
      this.free += 1;
    } else {
      next();
    }
  }
}
