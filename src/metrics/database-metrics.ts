import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Pool } from 'pg';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { SENT_BATCHES, type SentBatch } from '../database/batcher.js';
import { Standbys } from '../standbys/standbys.js';

/** Measures the connections to the database, and how many requests share a statement. */
@Injectable()
export class DatabaseMetrics implements OnModuleInit, OnModuleDestroy {
  private readonly sizes: Histogram<'batch'>;
  private readonly observe = (batch: unknown): void => {
    const { name, size } = batch as SentBatch;
    this.sizes.observe({ batch: name }, size);
  };

  constructor(registry: Registry, pool: Pool, standbys: Standbys) {
    const registers = [registry];
    new Gauge({
      name: 'animal_store_database_connections',
      help: 'Open connections to the primary, by state: in_use or idle.',
      labelNames: ['state'],
      registers,
      collect() {
        this.set({ state: 'in_use' }, pool.totalCount - pool.idleCount);
        this.set({ state: 'idle' }, pool.idleCount);
      },
    });
    new Gauge({
      name: 'animal_store_database_connections_max',
      help: 'Connections that may be open at once: DATABASE_POOL_SIZE.',
      registers,
    }).set(pool.options.max);
    new Gauge({
      name: 'animal_store_database_connections_awaited',
      help: 'Statements that wait for a connection.',
      registers,
      collect() {
        this.set(pool.waitingCount);
      },
    });
    new Counter({
      name: 'animal_store_database_reads_total',
      help: 'Batches of lists and gets, by the kind of server that served them: primary or standby.',
      labelNames: ['server'],
      registers,
      collect() {
        this.reset();
        this.inc({ server: 'primary' }, standbys.reads.primary);
        this.inc({ server: 'standby' }, standbys.reads.standby);
      },
    });
    new Gauge({
      name: 'animal_store_database_standby_in_use',
      help: 'Whether lists and gets go to a standby of DATABASE_READ_URL: 1, or 0 while they do not.',
      labelNames: ['standby'],
      registers,
      collect() {
        for (const { server, reason } of standbys.states) {
          this.set({ standby: server }, reason === undefined ? 1 : 0);
        }
      },
    });
    this.sizes = new Histogram({
      name: 'animal_store_database_batch_size',
      help: 'Requests that share a statement, by the kind of batch.',
      labelNames: ['batch'],
      buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
      registers,
    });
  }

  onModuleInit(): void {
    SENT_BATCHES.subscribe(this.observe);
  }

  onModuleDestroy(): void {
    SENT_BATCHES.unsubscribe(this.observe);
  }
}
