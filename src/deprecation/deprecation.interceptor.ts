import {
  applyDecorators,
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  SetMetadata,
  UseInterceptors,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Observable } from 'rxjs';
import { Environment } from '../config/environment.js';
import type { Response } from 'express';
import { type Deprecation, deprecationHeaders } from './deprecation.js';

/** Metadata of a deprecated handler: its {@link Deprecation}. */
const DEPRECATION = 'deprecation';

/** Adds the headers of a deprecated operation, before its handler runs: an error that it throws has them too. */
@Injectable()
export class DeprecationInterceptor implements NestInterceptor {
  constructor(
    private readonly reflector: Reflector,
    @Inject(Environment) private readonly environment: Environment,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const deprecation = this.reflector.get<Deprecation>(DEPRECATION, context.getHandler());
    const headers = deprecationHeaders(deprecation, this.environment);
    context.switchToHttp().getResponse<Response>().set(headers);
    return next.handle();
  }
}

/** Marks an operation as deprecated: each response of its handler has the headers. */
export const Deprecated = (deprecation: Deprecation) =>
  applyDecorators(SetMetadata(DEPRECATION, deprecation), UseInterceptors(DeprecationInterceptor));
