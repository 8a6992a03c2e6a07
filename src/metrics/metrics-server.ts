import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { collectDefaultMetrics, Gauge } from 'prom-client';
import { Environment } from '../config/environment.js';
import { VERSION } from '../config/project-root.js';
import { ErrorFilter } from '../errors/error.filter.js';
import { OperatorError } from '../errors/operator-error.js';
import type { Response } from '../http/express-classes.js';
import { Gate } from '../gate/gate.js';
import { HttpAdapter } from '../http/http-adapter.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import { HttpLimits } from '../http/limits.js';
import { Metrics } from './metrics.js';

/** Serves the metrics at `/metrics`, on a port of its own, which load on the service's port does not block. */
@Injectable()
export class MetricsServer implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly adapter: HttpAdapter;
  /** Scrapes that come while one runs share its result. */
  private scrape?: Promise<Buffer>;

  constructor(
    private readonly metrics: Metrics,
    private readonly environment: Environment,
    @Inject(LOGGER) logger: Logger,
    httpLimits: HttpLimits,
    errors: ErrorFilter,
  ) {
    const { registry } = metrics;
    collectDefaultMetrics({ register: registry });
    new Gauge({
      name: 'animal_store_build_info',
      help: 'What runs: version, commit and version of Node.js. Its value is 1.',
      labelNames: ['version', 'commit', 'node'],
      registers: [registry],
    }).set({ version: VERSION, commit: environment.COMMIT ?? 'unknown', node: process.version }, 1);
    const limits = { ...httpLimits, connections: 100, requestsPerConnection: 4 };
    const adapter = new HttpAdapter(limits, new Gate(limits), logger);
    adapter.initHttpServer();
    adapter.get('/metrics', (_request: unknown, response: Response) => this.send(response));
    adapter.setNotFoundHandler();
    adapter.setErrorHandler((error: unknown, request: unknown, response: unknown, _next: unknown) =>
      errors.catch(error, new ExecutionContextHost([request, response])),
    );
    this.adapter = adapter;
  }

  async onApplicationBootstrap(): Promise<void> {
    const { METRICS_PORT, listenHost } = this.environment;
    const listening = once(this.server.listen(METRICS_PORT, listenHost), 'listening');
    await listening.catch(({ message }: Error) => {
      throw new OperatorError(
        `The metrics cannot be served: ${message}. Set HOST and METRICS_PORT to an address of this machine that is free.`,
      );
    });
  }

  onApplicationShutdown(): void {
    void this.adapter.close();
    this.server.closeAllConnections();
  }

  private get server(): Server {
    return this.adapter.getHttpServer();
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  private async send(response: Response): Promise<void> {
    this.scrape ??= this.read().finally(() => (this.scrape = undefined));
    response.setHeader('Content-Type', this.metrics.registry.contentType).end(await this.scrape);
  }

  private async read(): Promise<Buffer> {
    const { registry } = this.metrics;
    const gauge = (name: string) => registry.getSingleMetric(name) as Gauge | undefined;
    const most = await gauge('process_max_fds')?.get();
    // If all are open, prom-client cannot open the folder in which it counts them, and leaves the value as it is.
    gauge('process_open_fds')?.set(most?.values[0]?.value ?? 0);
    return Buffer.from(await registry.metrics());
  }
}
