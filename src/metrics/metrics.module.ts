import { Global, Module } from '@nestjs/common';
import { SchemaModule } from '../schema/schema.module.js';
import { Metrics } from './metrics.js';
import { MetricsServer } from './metrics-server.js';

/** Imported only if `METRICS_PORT` is set: without it, nothing is measured. Other modules may add metrics. */
@Global()
@Module({ imports: [SchemaModule], providers: [Metrics, MetricsServer], exports: [Metrics] })
export class MetricsModule {}
