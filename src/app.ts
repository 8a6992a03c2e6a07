import { type Type, VersioningType } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule, type Resources } from './app.module.js';
import { AccessLog } from './access-log/access-log.js';
import { Gate } from './gate/gate.js';
import { HttpAdapter } from './http/http-adapter.js';
import { HttpLimits } from './http/limits.js';
import { nestLogger } from './logging/logger.js';

/**
 * What a module needs of the application, such as `app.use(helmet())`, `app.useWebSocketAdapter(…)`, or
 * `app.connectMicroservice(…)` and then `await app.startAllMicroservices()`. Tests call it too.
 */
async function configure(_app: NestExpressApplication): Promise<void> {}

export async function createApp(
  resources: Resources,
  limits = new HttpLimits(resources.environment.KEEP_ALIVE_SECONDS),
  modules: Type[] = [],
): Promise<NestExpressApplication> {
  const { CORS_ORIGINS, TRUST_PROXY } = resources.environment;
  const gate = new Gate(limits);
  const adapter = new HttpAdapter(limits, gate, resources.logger, TRUST_PROXY);
  const app = await NestFactory.create<NestExpressApplication>(
    AppModule.forRoot(resources, limits, gate, modules),
    adapter,
    // BodyGuard reads the body, after the guards that check the API key.
    { logger: nestLogger(resources.logger), abortOnError: false, bodyParser: false },
  );
  app.enableVersioning({ type: VersioningType.URI });
  const accessLog = app.get(AccessLog);
  app.use(accessLog.middleware);
  adapter.describe = (rejection) => ({
    ...accessLog.rejection(rejection),
    // Nothing in it is secret, so pages of any origin may read it.
    ...(CORS_ORIGINS && {
      'Access-Control-Allow-Origin': '*',
      'Access-Control-Expose-Headers': '*',
    }),
  });
  if (CORS_ORIGINS !== undefined) {
    // The pages of these origins, or of all if it is `*`, may read the responses, errors too. The routes answer OPTIONS.
    // They may send any header, such as those of a tracing tool, and read all: the service uses no cookies.
    app.enableCors({
      origin: CORS_ORIGINS.includes('*') ? '*' : CORS_ORIGINS,
      exposedHeaders: '*',
      // Seconds: Chromium's maximum.
      maxAge: 7_200,
      preflightContinue: true,
    });
  }
  await configure(app);
  return app.init().catch(async (error: unknown) => {
    await app.close();
    throw error;
  });
}
