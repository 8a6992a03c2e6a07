import { Injectable, type OnModuleInit, type Type } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { Counter, Gauge, Registry } from 'prom-client';
import { ERRORS } from '../errors/errors.js';
import { AccessLog, type LoggedResponse } from '../http/access-log.js';
import { Admission } from '../http/admission.js';
import { describedHandlers } from '../openapi/openapi-document.js';
import { DurationHistogram, type Durations } from './duration-histogram.js';

/** The methods that have a label of their own. Node's parser knows more than thirty. */
const METHODS = ['GET', 'HEAD', 'POST', 'OPTIONS'];

/** Labels: `none` for a path without a route, and `other` for a method that is not in {@link METHODS}. */
const NONE = 'none';
const OTHER = 'other';

/** Responses that have the same labels. */
interface Series {
  count: number;
  labels: Record<'operation' | 'method' | 'status' | 'code', string>;
  durations: Durations;
  /** How many each API key got, if the operation is deprecated. */
  byKey?: Map<string, number>;
}

/**
 * Counts and times responses, in {@link AccessLog.observe}. prom-client would look labels up for each response, which
 * takes most of a microsecond. So this class counts responses, and sets prom-client's counters when they are collected.
 *
 * Values of labels are operations, patterns of paths, statuses and codes, and ids of valid API keys: nothing that a
 * client can choose.
 */
@Injectable()
export class HttpMetrics implements OnModuleInit {
  /** By route, then by method, then by error code, or by status if there is no code. */
  private readonly series = new Map<string | undefined, SeriesByMethod>();
  private readonly durations: DurationHistogram<'operation' | 'method'>;
  /** The name of each operation of the OpenAPI document, and whether it is deprecated, by method and route. */
  private readonly operations = new Map<string, { name: string; isDeprecated: boolean }>();

  constructor(
    registry: Registry,
    private readonly accessLog: AccessLog,
    admission: Admission,
    private readonly discovery: DiscoveryService,
  ) {
    const registers = [registry];
    const allSeries = () => this.allSeries();
    new Counter({
      name: 'animal_store_http_requests_total',
      help: 'Responses sent, by operation (or else route), method, status and error code.',
      labelNames: ['operation', 'method', 'status', 'code'],
      registers,
      collect() {
        this.reset();
        for (const { labels, count } of allSeries()) {
          this.inc(labels, count);
        }
      },
    });
    new Counter({
      name: 'animal_store_deprecated_requests_total',
      help: 'Responses of deprecated operations, by the id of the API key.',
      labelNames: ['operation', 'key'],
      registers,
      collect() {
        this.reset();
        for (const { labels, byKey = [] } of allSeries()) {
          for (const [key, count] of byKey) {
            this.inc({ operation: labels.operation, key }, count);
          }
        }
      },
    });
    this.durations = new DurationHistogram(
      registry,
      'animal_store_http_request_duration_seconds',
      "From the arrival of a request's headers to its response, by operation (or else route) and method.",
    );
    const load = () => admission.load;
    new Gauge({
      name: 'animal_store_http_requests_in_flight',
      help: 'Requests in their handlers.',
      registers,
      collect() {
        this.set(load().handled);
      },
    });
    new Gauge({
      name: 'animal_store_http_requests_queued',
      help: 'Requests that wait for their handlers.',
      registers,
      collect() {
        this.set(load().waiting);
      },
    });
  }

  onModuleInit(): void {
    const controllers = this.discovery.getControllers().map(({ metatype }) => metatype as Type);
    for (const handler of controllers.flatMap(describedHandlers)) {
      const route = `/v1${handler.path.replace(/\{(\w+)\}/g, ':$1')}`;
      const operation = {
        name: handler.operationId,
        isDeprecated: handler.deprecation !== undefined,
      };
      const method = handler.method.toUpperCase();
      for (const one of method === 'GET' ? ['GET', 'HEAD'] : [method]) {
        this.operations.set(`${one} ${route}`, operation);
        // Creates the series at 0. Prometheus would see no increase if the series began with its first error.
        this.addSeries(route, one, 'internal_error', ERRORS.internal_error.status);
      }
    }
    this.accessLog.observe = (response) => this.observe(response);
  }

  private observe({ route, method, status, code, ms, key }: LoggedResponse): void {
    const outcome = code ?? status ?? 'aborted';
    const series =
      this.series.get(route)?.get(method)?.get(outcome) ??
      this.addSeries(route, method, outcome, status ?? 0);
    series.count += 1;
    if (ms !== undefined) {
      series.durations.add(ms);
    }
    if (series.byKey !== undefined && key !== undefined) {
      series.byKey.set(key, (series.byKey.get(key) ?? 0) + 1);
    }
  }

  private addSeries(
    route: string | undefined,
    method: string | undefined,
    outcome: string | number,
    status: number,
  ): Series {
    const known = this.operations.get(`${method} ${route}`);
    const operation = known?.name ?? route ?? NONE;
    const labels = {
      operation,
      method:
        method !== undefined && (METHODS.includes(method) || known !== undefined) ? method : OTHER,
    };
    const series: Series = {
      count: 0,
      labels: {
        ...labels,
        status: String(status),
        code: typeof outcome === 'string' ? outcome : '',
      },
      durations: this.durations.of(labels),
      byKey: known?.isDeprecated ? new Map() : undefined,
    };
    const byMethod: SeriesByMethod = this.series.get(route) ?? new Map();
    const byOutcome: SeriesByOutcome = byMethod.get(method) ?? new Map();
    this.series.set(route, byMethod.set(method, byOutcome.set(outcome, series)));
    return series;
  }

  private allSeries(): Series[] {
    return [...this.series.values()].flatMap((byMethod) =>
      [...byMethod.values()].flatMap((byOutcome) => [...byOutcome.values()]),
    );
  }
}

type SeriesByOutcome = Map<string | number, Series>;
type SeriesByMethod = Map<string | undefined, SeriesByOutcome>;
