import type { Server } from 'node:http';
import { AbstractHttpAdapter } from '@nestjs/core';
import type { Request } from './request.js';
import type { Response } from './response.js';
import { ROUTE_METHODS, type RouteHandler, Routes } from './routes.js';

/**
 * What Nest asks of the HTTP server under it, on Node's own and {@link Routes}. Nest has adapters for Express and for
 * Fastify; each would read, route and answer requests in its own way before this service could.
 */
export abstract class NestAdapter extends AbstractHttpAdapter<Server, Request, Response> {
  protected readonly routes = new Routes();

  constructor() {
    super();
    for (const method of ROUTE_METHODS) {
      const register = (path: string, handler: RouteHandler) =>
        this.routes.add(method, path, handler);
      Object.assign(this, { [method.toLowerCase()]: register });
    }
  }

  override getType(): string {
    return 'node';
  }

  /** A version is part of the path. */
  override applyVersionFilter(handler: any) {
    return handler;
  }

  override status(response: Response, status: number): void {
    response.statusCode = status;
  }

  override isHeadersSent(response: Response): boolean {
    return response.headersSent;
  }

  /** The body is read after the guard, by whoever wants one (`JsonBody`). */
  override registerParserMiddleware(): void {}

  /** A path without a route never comes to Nest. */
  override setNotFoundHandler(): void {}

  /** Nest handles the faults of a route itself. */
  override setErrorHandler(): void {}

  override appendHeader = unsupported;
  override createMiddlewareFactory = unsupported;
  override enableCors = unsupported;
  override end = unsupported;
  override getHeader = unsupported;
  override getRequestHostname = unsupported;
  override getRequestMethod = unsupported;
  override getRequestUrl = unsupported;
  override redirect = unsupported;
  override render = unsupported;
  override setHeader = unsupported;
  override setViewEngine = unsupported;
  override useStaticAssets = unsupported;
}

function unsupported(): never {
  throw new Error('The HTTP adapter does not support this.');
}
