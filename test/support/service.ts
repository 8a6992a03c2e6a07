import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import type { Abstract, Type } from '@nestjs/common';
import supertest from 'supertest';
import { DataSource } from 'typeorm';
import { createApp } from '../../src/app.js';
import { KEY_PREFIX } from '../../src/api-key.js';
import { ApiKey } from '../../src/auth/api-key.entity.js';
import { administerKeys, ApiKeys } from '../../src/auth/api-keys.js';
import { readEnvironment } from '../../src/config/environment.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { poolOf } from '../../src/database/data-source.js';
import { TurnGuard } from '../../src/auth/turn.guard.js';
import type { HttpAdapter } from '../../src/http/http-adapter.js';
import { HttpLimits } from '../../src/http/limits.js';
import { createLogger } from '../../src/logging/logger.js';
import { MetricsServer } from '../../src/metrics/metrics-server.js';
import { holdToDocument } from './contract.js';
import { createMigratedDatabase, dropDatabase } from './database.js';

/**
 * The whole service on a database of its own, listening on a port of its own. Each response is compared with
 * `docs/openapi.yaml`.
 */
export type TestService = Awaited<ReturnType<typeof startService>>;

/**
 * @param sharedUrl the database of another one, to share with it.
 * @param options.owner the URL with which the API key is created, if the service's role may not create one.
 * @param options.limits limits of HTTP that differ from the defaults.
 * @param options.modules modules that the application imports too.
 */
export async function startService(
  variables: Record<string, string> = {},
  sharedUrl?: string,
  options: { owner?: string; limits?: Partial<HttpLimits>; modules?: Type[] } = {},
) {
  const databaseUrl = sharedUrl ?? (await createMigratedDatabase());
  // They do not run through a pooler.
  if (sharedUrl !== undefined && variables['DATABASE_POOLER'] === undefined) {
    await runMigrations(databaseUrl);
  }
  const environment = readEnvironment({ DATABASE_URL: databaseUrl, ...variables });
  const { key } = await administerKeys(options.owner ?? databaseUrl, (keys) => keys.issue('test'));
  const log: string[] = [];
  const limits = Object.assign(new HttpLimits(), options.limits);
  const leaks: string[] = [];
  const write = (line: string) => {
    log.push(line);
    if (line.includes(KEY_PREFIX) || line.includes(key.slice(KEY_PREFIX.length))) {
      leaks.push(line);
    }
  };
  const logger = createLogger('trace', { write });
  const app = await createApp({ environment, databaseUrl, logger }, limits, options.modules);
  const dataSource = app.get(DataSource);
  const pool = poolOf(dataSource);
  const server: Server = app.getHttpServer();
  const explained = withReason(() => log.findLast((line) => line.includes('"level":"error"')));
  const differences = holdToDocument(server);
  await app.listen(0, '127.0.0.1');
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  return {
    origin,
    port,
    /** A valid API key. */
    key,
    databaseUrl,
    /** The service's own connections. */
    pool,
    /** What an operator does with keys. */
    keys: new ApiKeys(dataSource.getRepository(ApiKey)),
    /** Runs a statement on one of {@link pool}. @returns its rows. */
    query: async (sql: string, values?: unknown[]): Promise<any[]> =>
      (await pool.query(sql, values)).rows,
    /** Every line that the service logged, as written. */
    log,
    /** Requests without a key. */
    anonymous: supertest.agent(origin).use(explained),
    /** Requests with {@link key}. */
    api: supertest.agent(origin).use(explained).set('Authorization', `Bearer ${key}`),
    /** Its limits of HTTP. A test may change those that are read for each request. */
    limits,
    /** How many requests are in their handlers. */
    admitted: (): number => app.get(TurnGuard).load.places,
    /** A provider of the application. */
    get: <T>(token: Abstract<T> | Type<T>): T => app.get(token, { strict: false }),
    /** What its listeners threw, by event. */
    listenerErrors: () => ({
      ...(app.getHttpAdapter() as HttpAdapter).errors.counts,
    }),
    /** The port of its metrics, if it has one. */
    metricsPort: (): number => app.get(MetricsServer, { strict: false }).port,
    /** How many connections its HTTP server has. */
    connections: promisify(server.getConnections.bind(server)),
    /** Also expects that no API key was logged, and that no response differed from the OpenAPI document. */
    stop: async () => {
      await app.close();
      if (sharedUrl === undefined) {
        await dropDatabase(databaseUrl);
      }
      expect({ leaks, differences: differences.slice(0, 5) }).toEqual({
        leaks: [],
        differences: [],
      });
    },
  };
}

/** The service of the tests of a file or a `describe`, which starts before them and stops after them. */
export function serviceOfTests(...args: Parameters<typeof startService>): TestService {
  const service = {} as TestService;
  beforeAll(async () => void Object.assign(service, await startService(...args)));
  afterAll(() => service.stop?.());
  return service;
}

/**
 * A plugin of superagent: the message of an expectation that fails has the request, the body of the response, and, of a
 * 500, the last error in the log, which the response has too.
 */
const withReason = (lastError: () => string | undefined) => (request: any) => {
  const { end } = request;
  request.end = (done: (error: Error | null, response?: any) => void) =>
    end.call(request, (error: Error | null, response?: any) => {
      if (response?.status === 500) {
        response.reason = lastError();
      }
      if (error !== null && response !== undefined) {
        const { method, url } = request;
        const more = `to ${method} ${url}: ${response.text}\n${response.reason ?? ''}`;
        error.stack = error.stack!.replace(error.message, `$& ${more}`);
      }
      done(error, response);
    });
};
