import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
} from '@nestjs/common';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import { Environment } from '../config/environment.js';

/** Gives each response of getPet's handler, errors too, the headers of its deprecation (RFC 9745, 8594, and 5829, 3.3). */
@Injectable()
export class DeprecationInterceptor implements NestInterceptor {
  private readonly headers;

  constructor({ DOCS, publicRoot }: Environment) {
    const guide = `, <${publicRoot}/docs/guides/deprecation>; rel="deprecation"; type="text/html"`;
    this.headers = new Map([
      ['Deprecation', `@${Date.parse('2026-11-19') / 1000}`],
      ['Sunset', 'Thu, 05 Dec 2030 00:00:00 GMT'],
      ['Link', `<${publicRoot}/v1/pets>; rel="successor-version"${DOCS === 'on' ? guide : ''}`],
    ]);
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const response = context.switchToHttp().getResponse<Response>();
    this.headers.forEach((value, name) => response.append(name, value));
    return next.handle();
  }
}
