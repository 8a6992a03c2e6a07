import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Injectable,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
} from '@nestjs/common';
import express from 'express';
import { collectDefaultMetrics, Gauge } from 'prom-client';
import { Environment } from '../config/environment.js';
import { VERSION } from '../config/project-root.js';
import { OperatorError } from '../errors/operator-error.js';
import { Metrics } from './metrics.js';

/** Serves the metrics at `/metrics`, on a port of its own, which load on the service's port does not block. */
@Injectable()
export class MetricsServer implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly server;

  constructor(
    { registry }: Metrics,
    private readonly environment: Environment,
  ) {
    collectDefaultMetrics({ register: registry });
    new Gauge({
      name: 'animal_store_build_info',
      help: 'What runs: version, commit and version of Node.js. Its value is 1.',
      labelNames: ['version', 'commit', 'node'],
      registers: [registry],
    }).set({ version: VERSION, commit: environment.COMMIT ?? 'unknown', node: process.version }, 1);
    const app = express().disable('x-powered-by');
    app.get('/metrics', async (_request, response) => {
      response.setHeader('Content-Type', registry.contentType).end(await registry.metrics());
    });
    this.server = createServer(app);
  }

  async onApplicationBootstrap(): Promise<void> {
    const { METRICS_PORT, HOST } = this.environment;
    const { server } = this;
    await once(server.listen(METRICS_PORT, HOST), 'listening').catch(({ message }: Error) => {
      throw new OperatorError(
        `The metrics cannot be served: ${message}. Set HOST and METRICS_PORT to an address of this machine that is free.`,
      );
    });
  }

  onApplicationShutdown(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }
}
