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
import { isUnavailable } from './database-error.js';

/**
 * Turns every fault of a guard or handler into an answer: `{code, message, status}` and the headers of its code.
 * Whatever is not recognised is the service's own fault and becomes `internal_error`, its cause in the log only.
 */
@Catch()
@Injectable()
export class ErrorFilter implements ExceptionFilter {
  constructor(
    private readonly host: HttpAdapterHost<HttpAdapter>,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  catch(fault: unknown, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<Response>();
    const error = toApiError(fault);
    this.log(error, response.req.id);
    addHeaders(response, error.headers);
    this.host.httpAdapter.replyError(response, error.code, error.message);
  }

  /** A client's fault is no news, nor is that the service is stopping; ours is, with its cause. */
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

function toApiError(fault: unknown): ApiError {
  if (fault instanceof ApiError) {
    return fault;
  }
  if (isUnavailable(fault)) {
    return new ApiError('unavailable', 'The database cannot be reached; try again.', {
      cause: fault,
    });
  }
  return new ApiError('internal_error', 'The service failed; the fault is ours.', { cause: fault });
}
