import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import type { NextFunction } from 'express';
import { KEY_PREFIX } from '../api-key.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import { ERRORS } from '../errors/api-error.js';
import { ErrorFilter } from '../errors/error.filter.js';
import type { Request, Response } from '../http/express-classes.js';
import type { Rejection } from '../http/last-words.js';
import { addressOf } from '../http/network.js';

export type LoggedResponse = ReturnType<typeof fieldsOf>;

/** @param request missing for input that is not an HTTP request. @param status missing if the client left before. */
function fieldsOf(
  id: string,
  receivedAt: number,
  socket: Socket,
  request?: Request,
  status?: number,
  code?: string,
  cause?: string,
) {
  const ip = (request?.headers['x-forwarded-for'] && request.ip) || '';
  return {
    request: id,
    method: request?.method,
    // The route's pattern, not the path, so that no client input from the URL gets into the log.
    route: request?.route?.path as string | undefined,
    status,
    code,
    // Of a 503.
    cause,
    ms: Math.round((performance.now() - receivedAt) * 1000) / 1000,
    key: request?.user?.keyId ?? request?.rejectedKey,
    // From `X-Forwarded-For` if a trusted proxy wrote it and it is an address.
    client: addressOf(ip) ?? addressOf(socket.remoteAddress ?? ''),
    trace: traceIdOf(request?.headers['traceparent']),
  };
}

/** Gives each request its id and each response its common headers, and logs the response when it has ended. */
@Injectable()
export class AccessLog {
  /** Set by Metrics. */
  observe?: (response: LoggedResponse) => void = undefined;

  constructor(
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly errors: ErrorFilter,
  ) {}

  readonly middleware = (request: Request, response: Response, next: NextFunction): void => {
    const { headers } = request;
    request.id = requestId(headers);
    response.setHeader('X-Request-Id', request.id);
    for (const [name, value] of COMMON_HEADERS) {
      response.setHeader(name, value);
    }
    response.onceClosed.push(() => {
      const status = response.headersSent ? response.statusCode : undefined;
      const { errorCode, errorCause } = response.locals ?? {};
      const { id, receivedAt, socket } = request;
      this.log(fieldsOf(id, receivedAt, socket, request, status, errorCode, errorCause));
    });
    next();
  };

  /** Logs the response to input that is not handled. @returns its headers. */
  rejection({ error, socket, request, receivedAt }: Rejection): Record<string, string> {
    const id = requestId(request?.headers ?? {});
    const { code, options } = error;
    const { status } = ERRORS[code];
    this.errors.log(error, status, id, options.because);
    this.log(fieldsOf(id, receivedAt, socket, request, status, code, options.because));
    return { 'X-Request-Id': id, ...Object.fromEntries(COMMON_HEADERS) };
  }

  /** Logs probes at level `debug`: supervisors send them every few seconds, and their lines would hide the others. */
  private log(fields: LoggedResponse): void {
    this.logger[fields.route?.startsWith('/health/') ? 'debug' : 'info'](fields, 'request');
    this.observe?.(fields);
  }
}

const COMMON_HEADERS = [
  ['X-Content-Type-Options', 'nosniff'],
  ['Cache-Control', 'no-store'],
] as const;

/** The request's `X-Request-Id`, or a new id if it is malformed, or contains an API key or the 48 digits of its own. */
function requestId({ 'x-request-id': id, authorization = '' }: IncomingHttpHeaders): string {
  const isAccepted =
    typeof id === 'string' &&
    /^[A-Za-z0-9._~:/+=@-]{1,128}$/.test(id) &&
    !id.toLowerCase().includes(KEY_PREFIX) &&
    !(authorization.length > 48 && id.includes(authorization.slice(-48)));
  return isAccepted ? id : randomUUID();
}

/** W3C Trace Context, section 3.2.2: no id is all zeros, and only versions after `00` may have more fields. */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:(?<!^00.*)-.*)?$/;

/** The 32 hexadecimal digits of the trace; `undefined` if the header is missing, malformed or repeated. */
export const traceIdOf = (traceparent?: string | string[]): string | undefined =>
  traceparent === undefined ? undefined : TRACEPARENT.exec(String(traceparent))?.[1];
