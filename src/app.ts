import { type INestApplication, VersioningType } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule, type Resources } from './app.module.js';
import { HttpAdapter } from './http/http-adapter.js';
import { NestLogger } from './logging/logger.js';

/** @returns the application, ready to listen. */
export async function createApp(resources: Resources): Promise<INestApplication> {
  const { environment, logger } = resources;
  const app = await NestFactory.create(
    AppModule.forRoot(resources),
    new HttpAdapter(logger, environment),
    // The body is read after the guard, by `@JsonBody`.
    { logger: new NestLogger(logger), abortOnError: false, bodyParser: false },
  );
  app.enableVersioning({ type: VersioningType.URI });
  return app.init();
}
