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
    this.headers = new Map(Object.entries(deprecationHeaders(environment)));
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    context.switchToHttp().getResponse<Response>().setHeaders(this.headers);
    return next.handle();
  }
}
