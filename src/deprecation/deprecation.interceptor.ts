import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import { addHeaders } from '../http/headers.js';

/** Metadata of a deprecated handler: the headers of its answers. */
export const DEPRECATION_HEADERS = 'deprecation-headers';

/**
 * Adds the deprecation headers of the operation it stands on. They are set before the handler runs, so that an
 * error the handler throws carries them too.
 */
@Injectable()
export class DeprecationInterceptor implements NestInterceptor {
  constructor(private readonly reflector: Reflector) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const headers = this.reflector.get<Record<string, string>>(
      DEPRECATION_HEADERS,
      context.getHandler(),
    );
    addHeaders(context.switchToHttp().getResponse<Response>(), headers);
    return next.handle();
  }
}
