import { type DynamicModule, Global, Module } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { Pool } from 'pg';
import { AuthModule } from './auth/auth.module.js';
import { BearerGuard } from './auth/bearer.guard.js';
import { RateLimitGuard } from './auth/rate-limit.guard.js';
import { Environment } from './config/environment.js';
import { DocsModule } from './docs/docs.module.js';
import { ErrorFilter } from './errors/error.filter.js';
import { HealthModule } from './health/health.module.js';
import { IndexModule } from './index/index.module.js';
import { LOGGER, type Logger } from './logging/logger.js';
import { OpenApiModule } from './openapi/openapi.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { PetsModule } from './pets/pets.module.js';

/** What the process is given from outside, made once before the application. */
export interface Surroundings {
  environment: Environment;
  /** The connections that serve requests. */
  pool: Pool;
  logger: Logger;
}

/** The parts, and every global. */
@Global()
@Module({})
export class AppModule {
  static in({ environment, pool, logger }: Surroundings): DynamicModule {
    const surroundings = [
      { provide: Environment, useValue: environment },
      { provide: Pool, useValue: pool },
      { provide: LOGGER, useValue: logger },
    ];
    // In the order in which a request meets them.
    const guards =
      environment.RATE_LIMIT_PER_MINUTE === undefined
        ? [BearerGuard]
        : [BearerGuard, RateLimitGuard];
    return {
      module: AppModule,
      imports: [
        AuthModule,
        PetsModule,
        OrdersModule,
        HealthModule,
        IndexModule,
        OpenApiModule,
        ...(environment.DOCS === 'on' ? [DocsModule] : []),
      ],
      providers: [
        ...surroundings,
        ...guards.map((useClass) => ({ provide: APP_GUARD, useClass })),
        { provide: APP_FILTER, useClass: ErrorFilter },
      ],
      exports: surroundings,
    };
  }
}
