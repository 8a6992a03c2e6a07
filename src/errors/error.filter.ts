import { STATUS_CODES } from 'node:http';
import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  HttpException,
  Inject,
  Injectable,
} from '@nestjs/common';
import type { Response } from 'express';
import { LOGGER, type Logger } from '../logging/logger.js';
import { ApiError } from './api-error.js';
import { databaseUnavailable, isUnavailable } from './database-error.js';
import { ERRORS } from './errors.js';

/** What the response to an error says: the Error body (interface, part 2) and headers. */
interface ErrorResponse {
  code: string;
  message: string;
  status: number;
  headers?: Readonly<Record<string, string>>;
}

/**
 * Turns every exception into a response with the body `{code, message, status}`. An exception that is neither an
 * ApiError nor one of Nest's becomes `internal_error`, and its cause is only logged.
 */
@Catch()
@Injectable()
export class ErrorFilter implements ExceptionFilter {
  constructor(@Inject(LOGGER) private readonly logger: Logger) {}

  catch(exception: unknown, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<Response>();
    const { code, message, status, headers } = this.logged(exception, response);
    if (response.headersSent) {
      // Ends the connection, so that the client does not take half a response for a whole one.
      response.destroy();
      return;
    }
    response.locals['errorCode'] = code;
    for (const name of ['Content-Encoding', 'Content-Disposition', 'Transfer-Encoding']) {
      response.removeHeader(name);
    }
    response.status(status).set({ ...headers });
    response.setHeader('Content-Type', 'application/json; charset=utf-8');
    response.json({ code, message, status });
  }

  /** Logs `internal_error` with its cause, and `unavailable` unless it is expected. */
  private logged(exception: unknown, response: Response): ErrorResponse {
    const request = response.getHeader('X-Request-Id');
    const ofNest = responseOfNest(exception);
    if (ofNest !== undefined) {
      if (ofNest.status >= 500) {
        this.logger.error({ request, err: exception }, ofNest.message);
      }
      return ofNest;
    }
    const error = toApiError(exception);
    const { code, message, cause } = error;
    if (code === 'internal_error') {
      this.logger.error({ request, err: cause }, message);
    } else if (code === 'unavailable' && !error.isExpected) {
      const reason = cause instanceof Error ? cause.message : message;
      this.logger.warn({ request, reason }, message);
    }
    const { status, headers }: { status: number; headers?: Record<string, string> } = ERRORS[code];
    return { code, message, status, headers: { ...headers, ...error.headers } };
  }
}

/**
 * The response to an HttpException, or to an error of Express's middlewares, which has a `statusCode` and, if `expose`
 * is true, a message for the client.
 *
 * @returns `undefined` for any other exception, and for an HttpException of 500, whose message may be internal.
 */
function responseOfNest(exception: unknown): ErrorResponse | undefined {
  if (exception instanceof HttpException) {
    const status = exception.getStatus();
    if (!(status >= 400) || status === 500) {
      return undefined;
    }
    const body = exception.getResponse();
    const told = typeof body === 'string' ? body : (body as { message?: unknown }).message;
    const message = Array.isArray(told) ? told.join('; ') : String(told ?? exception.message);
    return { ...generalError(status), message, status };
  }
  const { statusCode, expose, message } = (exception ?? {}) as Record<string, unknown>;
  if (typeof statusCode === 'number' && expose === true) {
    return { ...generalError(statusCode), message: String(message), status: statusCode };
  }
  return undefined;
}

/** The last code of the table that has this status is its general one. Other statuses get their name as a code. */
function generalError(status: number): Pick<ErrorResponse, 'code' | 'headers'> {
  const [code, known] =
    Object.entries(ERRORS).findLast(([, error]) => error.status === status) ?? [];
  const name = STATUS_CODES[status] ?? 'error';
  return {
    code: code ?? name.toLowerCase().replaceAll(/[^a-z]+/g, '_'),
    headers: known && 'headers' in known ? known.headers : undefined,
  };
}

function toApiError(exception: unknown): ApiError {
  if (exception instanceof ApiError) {
    return exception;
  }
  return isUnavailable(exception)
    ? databaseUnavailable(exception)
    : new ApiError('internal_error', 'The service failed; the fault is ours.', {
        cause: exception,
      });
}
