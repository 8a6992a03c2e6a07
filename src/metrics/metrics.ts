import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Pool } from 'pg';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { SENT_BATCHES, type SentBatch } from '../database/batcher.js';
import { AccessLog, type LoggedResponse } from '../http/access-log.js';
import { Admission } from '../http/admission.js';
import type { HttpAdapter } from '../http/http-adapter.js';
import { OpenApiDocument, type Operation } from '../openapi/openapi-document.js';
import { SchemaMonitor } from '../schema/schema.module.js';
import { Standbys } from '../standbys/standbys.js';

type Values = Record<string, number> | [number];

/**
 * Measures responses, connections to the database, and batches. Values of labels are ids of operations, patterns of
 * paths, methods that routes have, statuses, codes, ids of valid API keys, and names of servers: nothing that a
 * client can choose.
 */
@Injectable()
export class Metrics implements OnModuleInit, OnModuleDestroy {
  /** By method and route. */
  private readonly operations = new Map<string, Operation>();
  private readonly requests: Counter;
  private readonly deprecated: Counter;
  private readonly durations: Histogram;
  private readonly batchSizes: Histogram;
  private readonly observeBatch = (batch: unknown): void => {
    const { name, size } = batch as SentBatch;
    this.batchSizes.observe({ batch: name }, size);
  };

  constructor(
    registry: Registry,
    private readonly accessLog: AccessLog,
    admission: Admission,
    private readonly document: OpenApiDocument,
    private readonly host: HttpAdapterHost<HttpAdapter>,
    pool: Pool,
    standbys: Standbys,
    schema: SchemaMonitor,
  ) {
    const registers = [registry];
    this.requests = new Counter({
      name: 'animal_store_http_requests_total',
      help: 'Responses sent, by operation (or else route), method, status and error code.',
      labelNames: ['operation', 'method', 'status', 'code'],
      registers,
    });
    this.durations = new Histogram({
      name: 'animal_store_http_request_duration_seconds',
      help: "From the arrival of a request's headers to its response, by operation (or else route) and method.",
      labelNames: ['operation', 'method'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
      registers,
    });
    this.deprecated = new Counter({
      name: 'animal_store_deprecated_requests_total',
      help: 'Responses of deprecated operations, by the id of the API key.',
      labelNames: ['operation', 'key'],
      registers,
    });
    this.batchSizes = new Histogram({
      name: 'animal_store_database_batch_size',
      help: 'Requests that share a statement, by the kind of batch.',
      labelNames: ['batch'],
      buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
      registers,
    });
    new Counter({
      name: 'animal_store_database_reads_total',
      help: 'Batches of lists and gets, by the kind of server that served them: primary or standby.',
      labelNames: ['server'],
      registers,
      collect() {
        this.reset();
        this.inc({ server: 'primary' }, standbys.reads.primary);
        this.inc({ server: 'standby' }, standbys.reads.standby);
      },
    });
    /** @param read returns a single value, or one by each value of `label`. */
    const gauge = (name: string, help: string, read: () => Values, label?: string) =>
      new Gauge({
        name,
        help,
        labelNames: label === undefined ? [] : [label],
        registers,
        collect() {
          for (const [value, number] of Object.entries(read())) {
            this.set(label === undefined ? {} : { [label]: value }, number);
          }
        },
      });
    gauge('animal_store_http_requests_in_flight', 'Requests in their handlers.', () => [
      admission.load.handled,
    ]);
    gauge('animal_store_http_requests_queued', 'Requests that wait for their handlers.', () => [
      admission.load.waiting,
    ]);
    gauge(
      'animal_store_database_connections_max',
      'Connections that may be open at once: DATABASE_POOL_SIZE.',
      () => [pool.options.max],
    );
    gauge(
      'animal_store_database_connections_awaited',
      'Statements that wait for a connection.',
      () => [pool.waitingCount],
    );
    gauge(
      'animal_store_database_connections',
      'Open connections to the primary, by state: in_use or idle.',
      () => ({ in_use: pool.totalCount - pool.idleCount, idle: pool.idleCount }),
      'state',
    );
    gauge(
      'animal_store_database_warnings',
      'Migrations and rights that are missing, and that no operation on pets needs.',
      () => [schema.warnings],
    );
    gauge(
      'animal_store_database_standby_in_use',
      'Whether lists and gets go to a standby of DATABASE_READ_URL: 1, or 0 while they do not.',
      () =>
        Object.fromEntries(
          standbys.states.map((it) => [it.server, it.reason === undefined ? 1 : 0]),
        ),
      'standby',
    );
  }

  onModuleInit(): void {
    for (const operation of this.document.operations) {
      const route = `/v1${operation.path.replaceAll(/\{(\w+)\}/g, ':$1')}`;
      for (const method of operation.method === 'GET' ? ['GET', 'HEAD'] : [operation.method]) {
        this.operations.set(`${method} ${route}`, operation);
        // Prometheus would see no increase if the series began with its first error.
        const labels = { operation: operation.operationId, method };
        this.requests.inc({ ...labels, status: 500, code: 'internal_error' }, 0);
        this.durations.zero(labels);
      }
    }
    this.accessLog.observe = (response) => this.observeResponse(response);
    SENT_BATCHES.subscribe(this.observeBatch);
  }

  onModuleDestroy(): void {
    SENT_BATCHES.unsubscribe(this.observeBatch);
  }

  private observeResponse(response: LoggedResponse): void {
    const { route, status, code = '', ms, key } = response;
    if (status === undefined) {
      return;
    }
    const known = this.operations.get(`${response.method} ${route}`);
    const operation = known?.operationId ?? route ?? 'none';
    const method = this.host.httpAdapter.methods.has(response.method!) ? response.method! : 'other';
    this.requests.inc({ operation, method, status, code });
    if (ms !== undefined) {
      this.durations.observe({ operation, method }, ms / 1000);
    }
    if (known?.deprecated && key !== undefined) {
      this.deprecated.inc({ operation, key });
    }
  }
}
