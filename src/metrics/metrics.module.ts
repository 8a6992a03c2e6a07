import { Module } from '@nestjs/common';
import { AuthModule } from '../auth/auth.module.js';
import { HealthModule } from '../health/health.module.js';
import { Metrics } from './metrics.js';
import { MetricsServer } from './metrics-server.js';

/** Imported only if `METRICS_PORT` is set: without it, nothing is measured. */
@Module({ imports: [AuthModule, HealthModule], providers: [Metrics, MetricsServer] })
export class MetricsModule {}
