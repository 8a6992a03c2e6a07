import { AsyncLocalStorage } from 'node:async_hooks';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import type { Abstract, Type } from '@nestjs/common';
import { Pool } from 'pg';
import supertest from 'supertest';
import { DataSource } from 'typeorm';
import { createApp } from '../../src/app.js';
import { KEY_PREFIX } from '../../src/api-key.js';
import { ApiKey } from '../../src/auth/api-key.entity.js';
import { administerKeys, ApiKeys } from '../../src/auth/api-keys.js';
import { readEnvironment } from '../../src/config/environment.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { DATABASE_LIMITS } from '../../src/database/limits.js';
import { poolOf } from '../../src/database/data-source.js';
import { ServingPool } from '../../src/database/pool.js';
import { Gate } from '../../src/gate/gate.js';
import type { HttpAdapter } from '../../src/http/http-adapter.js';
import { HttpLimits } from '../../src/http/limits.js';
import { createLogger } from '../../src/logging/logger.js';
import { MetricsServer } from '../../src/metrics/metrics-server.js';
import { told } from './ask.js';
import { holdToDocument } from './contract.js';
import { createMigratedDatabase, dropDatabase } from './database.js';
import { evidence, partsOf } from './evidence.js';
import { until } from './until.js';

/**
 * The whole service on a database of its own, listening on a port of its own. Each response is compared with
 * `docs/openapi.yaml`.
 */
export type TestService = Awaited<ReturnType<typeof startService>>;

/** Milliseconds for a session, and for a statement: on a busy machine, more than clients would wait. */
const PATIENCE = 20_000;

let hasRealTimes = false;

/** For a file that tests what happens when the database takes too long: its services give up as they do in production. */
export function useRealTimes(): void {
  hasRealTimes = true;
}

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
  if (!hasRealTimes) {
    Object.assign(DATABASE_LIMITS, { connecting: PATIENCE, waiting: PATIENCE, use: 2 * PATIENCE });
  }
  const databaseUrl = sharedUrl ?? (await createMigratedDatabase());
  // They do not run through a pooler.
  if (sharedUrl !== undefined && variables['DATABASE_POOLER'] === undefined) {
    await runMigrations(databaseUrl);
  }
  const environment = readEnvironment({ DATABASE_URL: databaseUrl, ...variables });
  const { key } = await administerKeys(options.owner ?? databaseUrl, (keys) => keys.issue('test'));
  const log: string[] = [];
  const limits = Object.assign(
    new HttpLimits(),
    !hasRealTimes && { deadline: PATIENCE, socketTimeout: 3 * PATIENCE },
    options.limits,
  );
  const leaks: string[] = [];
  const write = (line: string) => {
    log.push(line);
    evidence.log(line);
    if (line.includes(KEY_PREFIX) || line.includes(key.slice(KEY_PREFIX.length))) {
      leaks.push(`${expect.getState().currentTestName}: ${line.replaceAll(key, 'KEY')}`);
    }
  };
  const logger = createLogger('trace', { write });
  const resources = { environment, databaseUrl, logger };
  const pools = new Set<Pool>();
  const app = await poolsOf.run(pools, () => createApp(resources, limits, options.modules));
  const dataSource = app.get(DataSource);
  const pool = poolOf(dataSource);
  const server: Server = app.getHttpServer();
  const differences = holdToDocument(server);
  await app.listen(0, '127.0.0.1');
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  const connections = promisify(server.getConnections.bind(server));
  const admitted = () => app.get(Gate).load.inHandlers;
  const api = supertest.agent(origin).use(explained).set('Authorization', `Bearer ${key}`);
  /** What requests take and return: all of it is 0 when there is none. */
  const load = () => ({
    requestsInHandlers: admitted(),
    requestsThatWait: app.get(Gate).load.waiting,
    sessionsInUse: sum([...pools], ({ totalCount, idleCount }) => totalCount - idleCount),
    statementsThatWait: sum([...pools], ({ waitingCount }) => waitingCount),
  });
  /** Expects that all requests have returned what they took, also those that failed. */
  const expectIdle = async () => {
    // The pool closes a session that was not released, but later.
    await until('nothing is in use', load, { holds: isAllZero, seconds: 30 });
    // With room for one request, the service serves one, if no other is counted.
    const { admittedRequests } = limits;
    limits.admittedRequests = 1;
    const look = async () => (await api.get('/v1/pets?limit=0')).text;
    const holds = (text: string) => !text.includes('overloaded');
    await until('there is room', look, { holds });
    limits.admittedRequests = admittedRequests;
  };
  const close = async () => {
    await app.close();
    if (sharedUrl === undefined) {
      await dropDatabase(databaseUrl);
    }
  };
  const stopped = evidence.start('A service was not stopped.', close);
  const closeAndCompare = async () => {
    stopped();
    await close();
    // A service does not wait for the ends of its sessions with standbys.
    const open = async () => ({
      connections: await connections(),
      sessions: sum([...pools], ({ totalCount }) => totalCount),
    });
    await until('its connections are closed', open, { holds: isAllZero });
    expect({ leaks, differences: differences.slice(0, 5) }).toEqual({ leaks: [], differences: [] });
  };
  return {
    origin,
    port,
    /** A valid API key. */
    key,
    databaseUrl,
    /** The service's own connections. */
    pool,
    /** How many sessions one of its shares may have, while each of the others has one within reach. */
    sessionsOfOne: () => {
      const { size, shares } = app.get(ServingPool);
      return size - (shares.size - 1);
    },
    /** What an operator does with keys. */
    keys: new ApiKeys(dataSource.getRepository(ApiKey)),
    /** Runs a statement on one of {@link pool}. @returns its rows. */
    query: async (sql: string, values?: unknown[]): Promise<any[]> =>
      (await told(() => pool.query(sql, values), sql)).rows,
    /** Every line that the service logged, as written. */
    log,
    /** Requests without a key. */
    anonymous: supertest.agent(origin).use(explained),
    /** Requests with {@link key}. */
    api,
    /** Its limits of HTTP. A test may change those that are read for each request. */
    limits,
    /** How many requests are in their handlers. */
    admitted,
    /** A provider of the application. */
    get: <T>(token: Abstract<T> | Type<T>): T => app.get(token, { strict: false }),
    /** What its listeners threw, by event. */
    listenerErrors: () => ({
      ...(app.getHttpAdapter() as HttpAdapter).errors.counts,
    }),
    /** The port of its metrics, if it has one. */
    metricsPort: (): number => app.get(MetricsServer, { strict: false }).port,
    /** How many connections its HTTP server has. */
    connections,
    /** Stops it as {@link stop}, also while it has requests. */
    close: closeAndCompare,
    /**
     * Expects that all requests have returned what they took, and stops the service. Also expects that no API key was
     * logged, and that no response differed from the OpenAPI document.
     */
    stop: async () => {
      stopped();
      // Without a session that is still in use, the pool does not close.
      await expectIdle().catch((error: unknown) => {
        void close();
        throw error;
      });
      await closeAndCompare();
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

const isAllZero = (counts: object) => Object.values(counts).every((count) => count === 0);

const sum = <Item>(items: Item[], count: (item: Item) => number): number =>
  items.reduce((total, item) => total + count(item), 0);

/** The pools that a service connects with while it starts. */
const poolsOf = new AsyncLocalStorage<Set<Pool>>();
const { connect } = Pool.prototype;
Pool.prototype.connect = function (this: Pool, ...args: []) {
  poolsOf.getStore()?.add(this);
  return connect.apply(this, args as never);
} as typeof connect;

/**
 * A plugin of superagent: the message of an expectation that fails has the request and the body of the response. A test
 * that ends before the response says so.
 */
function explained(request: any) {
  const { end, method, url } = request;
  const place = new Error();
  const arrived = evidence.wait(`the response to ${method} ${url}`);
  request.end = (done: (error: Error | null, response?: any) => void) =>
    end.call(request, (error: Error | null, response?: any) => {
      arrived();
      if (error !== null && response !== undefined) {
        const more = `to ${method} ${url}: ${response.text}`;
        error.stack = error.stack!.replace(error.message, `$& ${more}`);
      } else if (error !== null) {
        error.stack = [`${method} ${url}: ${error.message}`, ...partsOf(place)[1]].join('\n');
      }
      done(error, response);
    });
}
