import { type DynamicModule, Global, Module, type Type } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_PIPE } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { AuthModule } from './auth/auth.module.js';
import { BearerGuard } from './auth/bearer.guard.js';
import { RateLimitGuard } from './auth/rate-limit.guard.js';
import { Environment } from './config/environment.js';
import { poolOf } from './database/data-source.js';
import { connectToServe } from './database/connect.js';
import { ENGINE, engineOf } from './database/engine.js';
import { forEngine } from './database/for-engine.js';
import { ServingPool } from './database/pool.js';
import { Standbys } from './standbys/standbys.js';
import { DocsController, IndexController } from './docs/docs.controller.js';
import { ErrorFilter } from './errors/error.filter.js';
import { AccessLog } from './access-log/access-log.js';
import { AdmissionGuard } from './gate/admission.guard.js';
import { Gate } from './gate/gate.js';
import { BodyGuard, Scheduler } from './http/body.guard.js';
import { HttpLimits } from './http/limits.js';
import { HealthModule } from './health/health.module.js';
import { CitusPageReader } from './listing/citus-page-reader.js';
import { PageReader } from './listing/page-reader.js';
import { PostgresPageReader } from './listing/postgres-page-reader.js';
import { LOGGER, type Logger } from './logging/logger.js';
import { MetricsModule } from './metrics/metrics.module.js';
import { OpenApiDocument } from './openapi/openapi-document.js';
import { OrdersModule } from './orders/orders.module.js';
import { PetsModule } from './pets/pets.module.js';
import { RequestValidationPipe } from './validation/request-validation.pipe.js';

export interface Resources {
  environment: Environment;
  /** The URL of the database. When the application closes, it closes the connections. */
  databaseUrl: string;
  logger: Logger;
}

/** The modules, and the global guards, pipe and filter in the order in which they run. Global: all inject its providers. */
@Global()
@Module({})
export class AppModule {
  static forRoot(
    resources: Resources,
    limits: HttpLimits,
    gate: Gate,
    others: Type[] = [],
  ): DynamicModule {
    const { environment, databaseUrl, logger } = resources;
    const shared = [
      { provide: Environment, useValue: environment },
      { provide: ServingPool, useFactory: poolOf, inject: [DataSource] },
      { provide: ENGINE, useFactory: engineOf, inject: [DataSource] },
      { provide: LOGGER, useValue: logger },
      { provide: HttpLimits, useValue: limits },
      { provide: Gate, useValue: gate },
      { provide: Scheduler, useExisting: Gate },
      AccessLog,
      ErrorFilter,
      OpenApiDocument,
      {
        provide: Standbys,
        useFactory: (pool: ServingPool) => new Standbys(pool.share('health'), environment, logger),
        inject: [ServingPool],
      },
      forEngine(PageReader, { postgresql: PostgresPageReader, citus: CitusPageReader }),
    ];
    const rateLimit = environment.RATE_LIMIT_PER_MINUTE === undefined ? [] : [RateLimitGuard];
    return {
      module: AppModule,
      imports: [
        TypeOrmModule.forRootAsync({
          // The entities are those of `TypeOrmModule.forFeature` in the modules. `connectToServe` tries again by itself.
          useFactory: () => ({ type: 'postgres', autoLoadEntities: true, toRetry: () => false }),
          dataSourceFactory: async (options) =>
            connectToServe(databaseUrl, environment, options?.entities),
        }),
        AuthModule,
        PetsModule,
        OrdersModule,
        HealthModule,
        ...(environment.METRICS_PORT === undefined ? [] : [MetricsModule]),
        ...others,
      ],
      controllers: [environment.DOCS === 'on' ? DocsController : IndexController],
      providers: [
        ...shared,
        ...[BearerGuard, ...rateLimit, BodyGuard, AdmissionGuard].map((useClass) => ({
          provide: APP_GUARD,
          useClass,
        })),
        { provide: APP_PIPE, useClass: RequestValidationPipe },
        { provide: APP_FILTER, useExisting: ErrorFilter },
      ],
      exports: shared,
    };
  }
}
