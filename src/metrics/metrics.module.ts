import { Module } from '@nestjs/common';
import { OpenApiModule } from '../openapi/openapi.module.js';
import { SchemaModule } from '../schema/schema.module.js';
import { Metrics } from './metrics.js';
import { MetricsServer } from './metrics-server.js';

/** Imported only if `METRICS_PORT` is set: without it, nothing is measured. */
@Module({ imports: [OpenApiModule, SchemaModule], providers: [Metrics, MetricsServer] })
export class MetricsModule {}
