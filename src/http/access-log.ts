import { isIP } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import type { NextFunction } from 'express';
import { LOGGER, type Logger } from '../logging/logger.js';
import type { Request, Response } from './express-classes.js';
import { requestId, traceIdOf } from './request-id.js';

/** The prefix of the paths of liveness and readiness. */
export const PROBES = '/health/';

/** The fields of a response's line in the log. */
export interface LoggedResponse {
  request: string;
  /** Missing, as most others, for CONNECT and for input that is not an HTTP request. */
  method?: string;
  /** The pattern of its path. */
  route?: string;
  /** Missing if the client disconnected before it got a response. */
  status?: number;
  code?: string;
  /** Milliseconds from the arrival of the request's headers to the end of the response. */
  ms?: number;
  /** The API key's id. */
  key?: string;
  client?: string;
  trace?: string;
}

/** Gives each request its id and each response its common headers, and logs the response when it has ended. */
@Injectable()
export class AccessLog {
  /** Called with the log fields of each response. */
  observe?: (response: LoggedResponse) => void = undefined;

  constructor(@Inject(LOGGER) private readonly logger: Logger) {}

  readonly middleware = (request: Request, response: Response, next: NextFunction): void => {
    request.receivedAt = performance.now();
    request.id = requestId(request.headers);
    response.setHeader('X-Request-Id', request.id);
    response.setHeader('X-Content-Type-Options', 'nosniff');
    response.setHeader('Cache-Control', 'no-store');
    response.once('close', () => this.logResponse(request, response));
    next();
  };

  /** Logs probes at level `debug`: supervisors send them every few seconds, and their lines would hide the others. */
  record(response: LoggedResponse): void {
    this.logger[response.route?.startsWith(PROBES) ? 'debug' : 'info'](response, 'request');
    this.observe?.(response);
  }

  private logResponse(request: Request, response: Response): void {
    this.record({
      request: request.id,
      method: request.method,
      // The route's pattern, not the path, so that no client input from the URL gets into the log.
      route: request.route?.path,
      status: response.headersSent ? response.statusCode : undefined,
      code: response.locals?.['errorCode'],
      ms: Math.round((performance.now() - request.receivedAt) * 1000) / 1000,
      key: request.user?.keyId,
      client: clientAddressOf(request),
      trace: traceIdOf(request.headers['traceparent']),
    });
  }
}

/** From `X-Forwarded-For` if a trusted proxy wrote it and it is an address, otherwise the socket's. */
function clientAddressOf({ ip = '', socket }: Request): string | undefined {
  return isIP(ip) === 0 ? socket.remoteAddress : ip;
}
