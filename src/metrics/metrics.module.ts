import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { Registry } from 'prom-client';
import { DatabaseMetrics } from './database-metrics.js';
import { HttpMetrics } from './http-metrics.js';
import { MetricsServer } from './metrics-server.js';

/** Imported only if `METRICS_PORT` is set: without it, nothing is measured. */
@Module({
  imports: [DiscoveryModule],
  providers: [
    { provide: Registry, useFactory: () => new Registry() },
    HttpMetrics,
    DatabaseMetrics,
    MetricsServer,
  ],
})
export class MetricsModule {}
