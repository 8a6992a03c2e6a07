import { STATUS_CODES } from 'node:http';
import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  Inject,
} from '@nestjs/common';
import type { Request, Response } from 'express';
import { LOGGER, type Logger } from '../logging/logger.js';
import { ApiError, ERRORS } from './api-error.js';
import { reasonOf, unavailableCause } from './database-error.js';

/** Turns every exception into a response `{code, message, status}`. One that {@link responseTo} does not know is a 500. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  constructor(@Inject(LOGGER) private readonly logger: Logger) {}

  /** In other contexts, such as GraphQL's, Nest's own filter responds and logs, but not for WebSockets. */
  catch(exception: unknown, host: ArgumentsHost): void {
    if (host.getType() !== 'http') {
      if (host.getType() === 'ws') {
        this.logger.error({ err: exception }, 'The service failed');
      }
      return;
    }
    const http = host.switchToHttp();
    const response = http.getResponse<Response>();
    const { destroyed, complete } = http.getRequest<Request>();
    const known = responseTo(exception);
    // The reader of a body, such as multer, fails if the client leaves meanwhile.
    const isCutOff = known.status >= 500 && destroyed && !complete;
    const { code, message, status, headers, cause } = isCutOff
      ? responseOf(400, 'The body ended before its length.')
      : known;
    this.log(exception, status, response.getHeader('X-Request-Id'), cause);
    if (response.headersSent) {
      // Ends the connection, so that the client does not take half a response for a whole one.
      response.destroy();
      return;
    }
    Object.assign(response.locals, { errorCode: code, errorCause: cause });
    for (const name of ['Content-Encoding', 'Content-Disposition', 'Transfer-Encoding']) {
      response.removeHeader(name);
    }
    const own = { 'Content-Type': 'application/json; charset=utf-8', 'Cache-Control': 'no-store' };
    response.status(status).set({ ...headers, ...own });
    response.json({ code, message, status });
  }

  /** Logs why a response is 503, and each error of the service. @param request its id. */
  log(exception: unknown, status: number, request: unknown, cause?: string): void {
    if (status === 503) {
      const reason = reasonOf(Object(exception).cause ?? exception);
      // Such as which indicator of terminus is down.
      const details = exception instanceof HttpException ? exception.getResponse() : undefined;
      this.logger.warn({ request, cause, reason, details }, 'A request was rejected with 503');
    } else if (status >= 500) {
      this.logger.error({ request, err: exception }, 'The service failed');
    }
  }
}

const TABLE: Readonly<Record<string, { status: number; headers?: object }>> = ERRORS;

/** What the response to an error says: the Error body (interface, part 2) and headers. */
function responseTo(exception: unknown): ReturnType<typeof responseOf> {
  const { statusCode, expose, message } = Object(exception);
  if (exception instanceof ApiError) {
    const { code, options } = exception;
    return responseOf(ERRORS[code].status, message, code, options);
  }
  if (exception instanceof HttpException) {
    const status = exception.getStatus();
    if (status >= 400 && status < 600 && status !== 500) {
      const { message: ofNest } = Object(exception.getResponse());
      return responseOf(status, Array.isArray(ofNest) ? ofNest.join('; ') : message);
    }
  } else if (typeof statusCode === 'number' && expose === true) {
    // An error of Express's middlewares, whose message is for the client.
    return responseOf(statusCode, String(message));
  }
  const because = unavailableCause(exception);
  return because === undefined
    ? responseOf(500, 'The service failed; the fault is ours.')
    : responseOf(503, 'The database cannot serve the request now; try again.', 'unavailable', {
        because,
      });
}

function responseOf(
  status: number,
  message: string,
  code = GENERAL.get(status) ?? nameOf(status),
  { headers, because = 'other' }: ApiError['options'] = {},
) {
  const all = { ...TABLE[code]?.headers, ...headers };
  return { code, message, status, headers: all, cause: status === 503 ? because : undefined };
}

/** The last code of the table that has a status. Each code of 404, 409 and 422 is for one error, upon which clients act. */
const GENERAL = new Map<number, string>(
  Object.entries(ERRORS).map(([code, { status }]) => [status, code]),
);
[404, 409, 422].forEach((status) => GENERAL.delete(status));

const nameOf = (status: number) =>
  (STATUS_CODES[status] ?? 'error').toLowerCase().replaceAll(/[^a-z]+/g, '_');
