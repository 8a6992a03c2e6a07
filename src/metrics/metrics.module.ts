import { Global, Module } from '@nestjs/common';
import { Registry } from 'prom-client';
import { OpenApiModule } from '../openapi/openapi.module.js';
import { SchemaModule } from '../schema/schema.module.js';
import { Metrics } from './metrics.js';
import { MetricsServer } from './metrics-server.js';

/** Imported only if `METRICS_PORT` is set: without it, nothing is measured. Other modules may add to the registry. */
@Global()
@Module({
  imports: [OpenApiModule, SchemaModule],
  providers: [
    Metrics,
    MetricsServer,
    { provide: Registry, useFactory: ({ registry }: Metrics) => registry, inject: [Metrics] },
  ],
  exports: [Registry],
})
export class MetricsModule {}
