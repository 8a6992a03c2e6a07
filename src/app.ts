import { type INestApplication, VersioningType } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule, type Surroundings } from './app.module.js';
import { HttpAdapter } from './http/http-adapter.js';
import { NestLogger } from './logging/logger.js';

/** @returns the application, ready to listen. */
export async function createApp(surroundings: Surroundings): Promise<INestApplication> {
  const app = await NestFactory.create(
    AppModule.in(surroundings),
    new HttpAdapter(surroundings.logger, surroundings.environment),
    { logger: new NestLogger(surroundings.logger), abortOnError: false },
  );
  app.enableVersioning({ type: VersioningType.URI });
  return app.init();
}
