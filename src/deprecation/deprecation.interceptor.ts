import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
} from '@nestjs/common';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import { Environment } from '../config/environment.js';
import { deprecationHeaders } from './deprecation.js';

/** Gives each response of getPet's handler the headers of its deprecation, also if it throws an error. */
@Injectable()
export class DeprecationInterceptor implements NestInterceptor {
  private readonly headers;

  constructor(environment: Environment) {
    this.headers = deprecationHeaders(environment);
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    context.switchToHttp().getResponse<Response>().set(this.headers);
    return next.handle();
  }
}
