import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
} from '@nestjs/common';
import type { Response } from 'express';
import { map, type Observable } from 'rxjs';
import { JSON_TYPE, petJson, petsJson } from '../../contract.js';
import type { Pet } from './pet.entity.js';

/** Writes pets as JSON whose int64s are exact, which JSON.stringify cannot. */
@Injectable()
export class PetJsonInterceptor implements NestInterceptor<Pet | Pet[], string> {
  intercept(context: ExecutionContext, next: CallHandler<Pet | Pet[]>): Observable<string> {
    const response = context.switchToHttp().getResponse<Response>();
    return next.handle().pipe(
      map((answer) => {
        response.setHeader('Content-Type', JSON_TYPE);
        return Array.isArray(answer) ? petsJson(answer) : petJson(answer);
      }),
    );
  }
}
