import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Pool } from 'pg';
import { Gauge, Histogram, Registry } from 'prom-client';
import { SENT_BATCHES, type SentBatch } from '../database/batcher.js';

/** Measures the connections to the database, and how many requests share a statement. */
@Injectable()
export class DatabaseMetrics implements OnModuleInit, OnModuleDestroy {
  private readonly sizes: Histogram<'batch'>;
  private readonly observe = (batch: unknown): void => {
    const { name, size } = batch as SentBatch;
    this.sizes.observe({ batch: name }, size);
  };

  constructor(registry: Registry, pool: Pool) {
    const registers = [registry];
    new Gauge({
      name: 'animal_store_database_connections',
      help: 'Open connections to the database, by state: in_use or idle.',
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
    this.sizes = new Histogram({
      name: 'animal_store_database_batch_size',
      help: 'Requests that share a statement, by what is asked.',
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
