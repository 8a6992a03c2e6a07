import {
  type ArgumentsHost,
  Catch,
  type ExceptionFilter,
  Inject,
  Injectable,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { HttpAdapter } from '../http/http-adapter.js';
import { addHeaders, type Response } from '../http/response.js';
import { LOGGER, type Logger } from '../logging/logger.js';
import { ApiError } from './api-error.js';
import { databaseUnavailable, isUnavailable } from './database-error.js';

/**
 * Turns every exception of a guard, pipe or handler into a response: the body `{code, message, status}`, and the
 * error's headers. An unknown exception becomes `internal_error`, and its cause is only logged.
 */
@Catch()
@Injectable()
export class ErrorFilter implements ExceptionFilter {
  constructor(
    private readonly host: HttpAdapterHost<HttpAdapter>,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  catch(exception: unknown, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<Response>();
    const error = toApiError(exception);
    this.log(error, response.req.id);
    addHeaders(response, error.headers);
    this.host.httpAdapter.replyError(response, error.code, error.message);
  }

  /** Logs `internal_error` with its cause, and `unavailable` unless the service is stopping. */
  private log({ code, message, cause }: ApiError, request: string): void {
    if (code === 'internal_error') {
      this.logger.error({ request, err: cause }, message);
    } else if (code === 'unavailable' && !this.host.httpAdapter.isStopping) {
      this.logger.warn(
        { request, reason: cause instanceof Error ? cause.message : message },
        message,
      );
    }
  }
}

function toApiError(exception: unknown): ApiError {
  if (exception instanceof ApiError) {
    return exception;
  }
  if (isUnavailable(exception)) {
    return databaseUnavailable(exception);
  }
  return new ApiError('internal_error', 'The service failed; the fault is ours.', {
    cause: exception,
  });
}
