import { randomBytes } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import type { Type } from '@nestjs/common';
import { Client, type Pool } from 'pg';
import supertest from 'supertest';
import { createApp } from '../../src/app.js';
import { KEY_PREFIX } from '../../src/api-key.js';
import { ApiKey } from '../../src/auth/api-key.entity.js';
import { ApiKeys } from '../../src/auth/api-keys.js';
import { readEnvironment } from '../../src/config/environment.js';
import { runMigrations } from '../../src/schema/migrations.js';
import { connectService } from '../../src/cli/serving-database.js';
import { poolOf } from '../../src/database/data-source.js';
import { AccessLog } from '../../src/http/access-log.js';
import { Admission } from '../../src/http/admission.js';
import { HttpLimits } from '../../src/http/limits.js';
import { createLogger } from '../../src/logging/logger.js';
import { OrdersModule } from '../../src/orders/orders.module.js';
import { MetricsServer } from '../../src/metrics/metrics-server.js';
import { ask } from './ask.js';
import { CITUS_URL, createOnCitus, dropOnCitus } from './citus.js';
import { holdToDocument } from './contract.js';

/**
 * The whole service on a database of its own, listening on a port of its own. Each of its answers is held against
 * `docs/openapi.yaml`.
 */
export interface TestService {
  /** `http://127.0.0.1:<port>` */
  origin: string;
  port: number;
  /** A valid API key. */
  key: string;
  databaseUrl: string;
  /** The service's own connections. */
  pool: Pool;
  /** What an operator does with keys. */
  keys: ApiKeys;
  /** Runs a statement on one of them. @returns its rows. */
  query(sql: string, values?: unknown[]): Promise<any[]>;
  /** Every line that the service logged, as written. */
  log: string[];
  /** A request without a key. */
  anonymous: ReturnType<typeof supertest.agent>;
  /** A request with {@link key}. */
  api: ReturnType<typeof supertest.agent>;
  /** Its limits of HTTP. A test may change those that are read for each request. */
  limits: HttpLimits;
  /** How many requests are in their handlers. */
  admitted(): number;
  /** Whether anything is told of its responses, beside the log. */
  observesResponses(): boolean;
  /** The port of its metrics, if it has one. */
  metricsPort(): number;
  /** How many connections its HTTP server has. */
  connections(): Promise<number>;
  /** Also expects that no API key was logged, and that no response differed from the OpenAPI document. */
  stop(): Promise<void>;
}

/**
 * @param sharedUrl the database of another one, to share with it.
 * @param options.limits limits of HTTP that differ from the defaults.
 * @param options.modules modules that the application imports too, as if OrdersModule imported them.
 */
export async function startService(
  variables: Record<string, string> = {},
  sharedUrl?: string,
  { limits: changed = {}, modules = [] }: { limits?: Partial<HttpLimits>; modules?: Type[] } = {},
): Promise<TestService> {
  const databaseUrl = sharedUrl ?? (await createMigratedDatabase());
  // They do not run through a pooler.
  if (sharedUrl !== undefined && variables['DATABASE_POOLER'] === undefined) {
    await runMigrations(databaseUrl);
  }
  const environment = readEnvironment({ DATABASE_URL: databaseUrl, ...variables });
  const dataSource = await connectService(databaseUrl, environment);
  const pool = poolOf(dataSource);
  const keys = new ApiKeys(dataSource.getRepository(ApiKey));
  const { key } = await keys.issue('test');
  const log: string[] = [];
  const leaks: string[] = [];
  const write = (line: string) => {
    log.push(line);
    if (line.includes(KEY_PREFIX) || line.includes(key.slice(KEY_PREFIX.length))) {
      leaks.push(line);
    }
  };
  const limits = Object.assign(new HttpLimits(), changed);
  const logger = createLogger('trace', { write });
  Reflect.defineMetadata('imports', modules, OrdersModule);
  const app = await createApp({ environment, dataSource, logger }, limits).catch(async (error) => {
    await dataSource.destroy();
    throw error;
  });
  const server: Server = app.getHttpServer();
  const differences = holdToDocument(server);
  await app.listen(0, '127.0.0.1');
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  return {
    origin,
    port,
    key,
    databaseUrl,
    pool,
    keys,
    query: async (sql, values) => (await pool.query(sql, values)).rows,
    log,
    anonymous: supertest.agent(origin).use(withBodyInFailures),
    limits,
    admitted: () => app.get(Admission).load.handled,
    observesResponses: () => app.get(AccessLog).observe !== undefined,
    metricsPort: () => app.get(MetricsServer, { strict: false }).port,
    api: supertest.agent(origin).use(withBodyInFailures).set('Authorization', `Bearer ${key}`),
    connections: promisify(server.getConnections.bind(server)),
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
  afterAll(() => service.stop());
  return service;
}

/** A plugin of superagent: if `expect(status)` fails, its message contains the body of the response. */
function withBodyInFailures(request: any): void {
  const { expect } = request;
  request.expect = (...wanted: unknown[]) =>
    expect.apply(
      request,
      wanted.length === 1 && typeof wanted[0] === 'number' ? [hasStatus(wanted[0])] : wanted,
    );
}

const hasStatus = (wanted: number) => (response: supertest.Response) => {
  if (response.status !== wanted) {
    throw new Error(`expected ${wanted}, got ${response.status}: ${response.text}`);
  }
};

/** @returns the URL of a new, empty database, at another address of the server if one is given. */
export async function createDatabase(address = serverUrl()): Promise<string> {
  return address === CITUS_URL ? createOnCitus(newName()) : create(address);
}

/** @returns the URL of a new database with all migrations, which {@link createDatabase} describes. */
export async function createMigratedDatabase(address = serverUrl()): Promise<string> {
  if (address === CITUS_URL) {
    const url = await createDatabase(address);
    await runMigrations(url);
    return url;
  }
  return create(address, await migratedTemplate());
}

async function create(address: string, template = 'template1'): Promise<string> {
  const name = newName();
  await onServer(`create database ${name} template ${template}`);
  return at(address, name);
}

const newName = () => `test_${randomBytes(6).toString('hex')}`;

const at = (address: string, database: string) =>
  Object.assign(new URL(address), { pathname: `/${database}` }).href;

/** The advisory lock under which {@link migratedTemplate} makes it. */
const TEMPLATE_LOCK = 1;

/** @returns the name of a database with all migrations. The first worker that needs one makes it, once per run of jest. */
async function migratedTemplate(): Promise<string> {
  const template = process.env['TEST_TEMPLATE']!;
  const client = new Client({ connectionString: serverUrl() });
  await client.connect();
  try {
    await client.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    const found = await client.query('select from pg_database where datname = $1', [template]);
    if (found.rowCount === 0) {
      const unfinished = await create(serverUrl());
      await runMigrations(unfinished);
      const name = new URL(unfinished).pathname.slice(1);
      await client.query(`alter database ${name} rename to ${template}`);
    }
    return template;
  } finally {
    await client.end();
  }
}

export async function dropDatabase(url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  if (CITUS_URL !== undefined && new URL(CITUS_URL).host === new URL(url).host) {
    return dropOnCitus(name);
  }
  await onServer(`drop database if exists ${name} with (force)`);
}

/** Runs a statement on the server's own database. */
export async function onServer(sql: string): Promise<void> {
  await ask(serverUrl(), sql);
}

/** A PostgreSQL whose role may create databases and roles. */
function serverUrl(): string {
  const url = process.env['TEST_DATABASE_URL'];
  if (url === undefined) {
    throw new Error('TEST_DATABASE_URL is not set; the tests start with npm test');
  }
  return url;
}
