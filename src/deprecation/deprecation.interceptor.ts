import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  mixin,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import { Environment } from '../config/environment.js';
import { type Deprecation, deprecationHeaders } from './deprecation.js';

/** Marks an operation as deprecated: each response of its handler has the headers, also if it throws an error. */
export function Deprecated(deprecation: Deprecation): MethodDecorator {
  class DeprecationInterceptor implements NestInterceptor {
    private readonly headers: Record<string, string>;

    constructor(@Inject(Environment) environment: Environment) {
      this.headers = deprecationHeaders(deprecation, environment);
    }

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      context.switchToHttp().getResponse<Response>().set(this.headers);
      return next.handle();
    }
  }
  return UseInterceptors(mixin(DeprecationInterceptor));
}
