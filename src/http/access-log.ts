import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import type { NextFunction } from 'express';
import { KEY_PREFIX } from '../api-key.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import type { Request, Response } from './express-classes.js';

/** The prefix of the paths of liveness and readiness. */
export const PROBES = '/health/';

/** The fields of a response's line in the log. */
export interface LoggedResponse {
  request: string;
  /** Missing for input that is not an HTTP request. */
  method?: string;
  /** The pattern of its path. */
  route?: string;
  /** Missing if the client disconnected before it got a response. */
  status?: number;
  code?: string;
  /** Milliseconds from the arrival of the request's headers to the end of the response. */
  ms: number;
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
    response.once('close', () => this.log(request, response));
    next();
  };

  /** Logs probes at level `debug`: supervisors send them every few seconds, and their lines would hide the others. */
  private log(request: Request, response: Response): void {
    const { ip = '' } = request;
    const fields: LoggedResponse = {
      request: request.id,
      method: request.method,
      // The route's pattern, not the path, so that no client input from the URL gets into the log.
      route: request.route?.path,
      status: response.headersSent ? response.statusCode : undefined,
      code: response.locals?.['errorCode'],
      ms: Math.round((performance.now() - request.receivedAt) * 1000) / 1000,
      key: request.user?.keyId,
      // From `X-Forwarded-For` if a trusted proxy wrote it and it is an address.
      client: isIP(ip) === 0 ? request.socket.remoteAddress : ip,
      trace: traceIdOf(request.headers['traceparent']),
    };
    this.logger[fields.route?.startsWith(PROBES) ? 'debug' : 'info'](fields, 'request');
    this.observe?.(fields);
  }
}

/** Characters of an API key that follow its prefix: the secret and its checksum. */
const SECRET_LENGTH = 48;

/**
 * @returns the request's `X-Request-Id` if it may be logged, otherwise a new id. An id that contains an API key, or the
 *   secret of the key in `Authorization`, may not be logged.
 */
function requestId({ 'x-request-id': id, authorization = '' }: IncomingHttpHeaders): string {
  const isAccepted =
    typeof id === 'string' &&
    /^[A-Za-z0-9._~:/+=@-]{1,128}$/.test(id) &&
    !id.toLowerCase().includes(KEY_PREFIX) &&
    !(authorization.length > SECRET_LENGTH && id.includes(authorization.slice(-SECRET_LENGTH)));
  return isAccepted ? id : randomUUID();
}

/** The version is not `ff`, and no id is all zeros. Versions after `00` may have more fields. */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:(?<!^00.*)-.*)?$/;

/**
 * The trace that a request belongs to, from its `traceparent` (W3C Trace Context, section 3.2.2).
 *
 * @returns 32 hexadecimal digits; `undefined` if the header is missing or malformed. Two headers, which the server
 *   joins with a comma, are malformed.
 */
export function traceIdOf(traceparent: string | string[] = ''): string | undefined {
  return TRACEPARENT.exec(String(traceparent))?.[1];
}
