import { setTimeout as wait } from 'node:timers/promises';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { ApiKeyVerifier } from '../auth/api-key-verifier.js';
import { ServingPool, type Share } from '../database/pool.js';
import { statements } from '../database/statement.js';
import { HealthService } from '../health/health.service.js';
import { AccessLog, type LoggedResponse } from '../access-log/access-log.js';
import { Gate } from '../gate/gate.js';
import type { HttpAdapter } from '../http/http-adapter.js';
import { logLosses } from '../logging/logger.js';
import { OpenApiDocument, type Operation } from '../openapi/openapi-document.js';
import { SchemaMonitor } from '../schema/schema-monitor.js';
import { Standbys } from '../standbys/standbys.js';

/** Milliseconds that a scrape waits for: Prometheus would drop all of it later. */
const SCRAPE_TIME = 1_000;

/** Node knows 35 methods: with each of them at each path, a client would make thousands of series. */
const METHODS = new Set([undefined, 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** @returns `otherwise` if there is no result in {@link SCRAPE_TIME}. */
const inTime = <T>(result: Promise<T>, otherwise: T): Promise<T> =>
  Promise.race([result.catch(() => otherwise), wait(SCRAPE_TIME, otherwise, { ref: false })]);

/** Measures responses, statements, and connections to the database. A client can choose no value of a label. */
@Injectable()
export class Metrics implements OnModuleInit {
  readonly registry = new Registry();
  private readonly operations = new Map<string, Operation>();
  private readonly requests = new Counter({
    name: 'animal_store_http_requests_total',
    help: 'Responses sent, by operation (or else route), method, status, error code and cause of a 503.',
    labelNames: ['operation', 'method', 'status', 'code', 'cause'],
    registers: [this.registry],
  });
  private readonly durations = new Histogram({
    name: 'animal_store_http_request_duration_seconds',
    help: "From the arrival of a request's headers to its response, by operation (or else route) and method.",
    labelNames: ['operation', 'method'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [this.registry],
  });
  private readonly statements = new Histogram({
    name: 'animal_store_statement_duration_seconds',
    help: 'From the sending of a statement to its result or error, by its name.',
    labelNames: ['statement'],
    // PostgreSQL cancels a statement after 1.5 seconds. After 1.75, the session is closed.
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 1.5, 1.75],
    registers: [this.registry],
  });
  private readonly served = new Counter({
    name: 'animal_store_statement_requests_total',
    help: 'Lists, gets and creates that statements were sent for.',
    labelNames: ['statement'],
    registers: [this.registry],
  });
  private readonly deprecated = new Counter({
    name: 'animal_store_deprecated_requests_total',
    help: 'Responses of deprecated operations, by the id of the API key.',
    labelNames: ['operation', 'key'],
    registers: [this.registry],
  });

  constructor(
    private readonly accessLog: AccessLog,
    private readonly document: OpenApiDocument,
    gate: Gate,
    pool: ServingPool,
    standbys: Standbys,
    schema: SchemaMonitor,
    health: HealthService,
    verifier: ApiKeyVerifier,
    host: HttpAdapterHost<HttpAdapter>,
  ) {
    const gauge = this.readFrom.bind(this, Gauge);
    const counter = this.readFrom.bind(this, Counter);
    counter(
      'listener_errors_total',
      "Mistakes in the service's listeners, by event. Each ended one connection.",
      () => host.httpAdapter.errors.counts,
      'event',
    );
    counter(
      'log_lines_lost_total',
      'Lines that standard output did not accept.',
      () => logLosses.lines,
    );
    counter(
      'log_write_errors_total',
      'Attempts to write lines that failed, as on a full disk. They are repeated.',
      () => logLosses.errors,
    );
    gauge('log_bytes_waiting', 'Bytes of lines that are not written yet.', () => logLosses.waiting);
    counter(
      'database_reads_total',
      'Batches of lists and gets, by the kind of server that served them: primary or standby.',
      () => standbys.reads,
      'server',
    );
    gauge(
      'http_requests_in_flight',
      'Requests with a key in handlers.',
      () => gate.load.inHandlers,
    );
    gauge('http_requests_queued', 'Requests that wait for handlers.', () => gate.load.waiting);
    gauge('database_connections_max', 'DATABASE_POOL_SIZE.', () => pool.size);
    const ofEachShare = (count: (share: Share) => number) =>
      Object.fromEntries(Array.from(pool.shares.values(), (one) => [one.name, count(one)]));
    gauge(
      'database_connections_awaited',
      'Statements without one, by group of operations.',
      () => ofEachShare((one) => [...pool.waiting.values()].filter((it) => it === one).length),
      'operations',
    );
    gauge(
      'database_connections_taken',
      'Connections in use, by group of operations.',
      () => ofEachShare(({ inUse }) => inUse),
      'operations',
    );
    gauge(
      'database_connections',
      'Open connections to the primary, by state: in_use or idle.',
      () => ({ in_use: pool.totalCount - pool.idleCount, idle: pool.idleCount }),
      'state',
    );
    gauge(
      'database_warnings',
      'What is missing, such as a migration, a right or an index, and no operation on pets needs.',
      () => schema.warnings,
    );
    gauge(
      'database_standby_in_use',
      'Whether lists and gets go to a standby of DATABASE_READ_URL: 1, or 0 while they do not.',
      () => Object.fromEntries(standbys.states.map((it) => [it.server, it.reason ? 0 : 1])),
      'standby',
    );
    // Last, so that the statements of a scrape do not count above.
    gauge('ready', 'Whether the process is ready, as of this scrape: 1, or 0.', () => {
      const deadline = performance.now() + SCRAPE_TIME;
      return inTime(
        health.ready(deadline).then(() => 1),
        0,
      );
    });
    let expiring: Awaited<ReturnType<ApiKeyVerifier['expiring']>> = {};
    gauge(
      'api_key_expiry_timestamp_seconds',
      'When keys in use expire that do within 14 days, or did in the last day, by their id.',
      // What was known, if the database takes too long: an alert would end, and begin again.
      async () => (expiring = await inTime(verifier.expiring(), expiring)),
      'key',
    );
  }

  onModuleInit(): void {
    for (const operation of this.document.operations) {
      const { operationId, path, method } = operation;
      const route = `/v1${path.replaceAll(/\{(\w+)\}/g, ':$1')}`;
      for (const one of method === 'GET' ? ['GET', 'HEAD'] : [method]) {
        this.operations.set(`${one} ${route}`, operation);
        // Prometheus would see no increase if the series began with its first error.
        const labels = { operation: operationId, method: one };
        this.requests.inc({ ...labels, status: 500, code: 'internal_error', cause: '' }, 0);
        this.durations.zero(labels);
      }
    }
    this.accessLog.observe = this.observeResponse;
    statements.observe = (name, ms, requests) => {
      const labels = { statement: name || 'unprepared' };
      this.statements.observe(labels, ms / 1000);
      this.served.inc(labels, requests);
    };
  }

  /** Adds a metric. `read` returns its value or, if it has a label, the value for each of the label's values. */
  private readFrom(
    Kind: typeof Gauge | typeof Counter,
    name: string,
    help: string,
    read: () => number | Record<string, number> | Promise<number | Record<string, number>>,
    label?: string,
  ): void {
    new Kind({
      name: `animal_store_${name}`,
      help,
      labelNames: label === undefined ? [] : [label],
      registers: [this.registry],
      async collect() {
        const values = await read();
        this.reset();
        if (typeof values === 'number') {
          return this.inc(values);
        }
        Object.entries(values).forEach(([key, value]) => this.inc({ [label!]: key }, value));
      },
    });
  }

  private readonly observeResponse = (response: LoggedResponse): void => {
    const { route, status, code = '', cause = '', ms, key } = response;
    if (status === undefined) {
      return;
    }
    const known = this.operations.get(`${response.method} ${route}`);
    const operation = known?.operationId ?? route ?? 'none';
    const method = METHODS.has(response.method) ? (response.method ?? 'none') : 'other';
    this.requests.inc({ operation, method, status, code, cause });
    this.durations.observe({ operation, method }, ms / 1000);
    if (known?.deprecated && key !== undefined && status !== 401) {
      this.deprecated.inc({ operation, key });
    }
  };
}
