import { Injectable, type PipeTransform, type ArgumentMetadata } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { buildMessage, ValidateBy, validateSync } from 'class-validator';
import { ApiError } from '../errors/api-error.js';

/** A class-validator rule: the property's value satisfies `predicate`, or the request is refused with `message`. */
export const Satisfies = (predicate: (value: unknown) => boolean, message: string) =>
  ValidateBy({
    name: predicate.name,
    validator: { validate: predicate, defaultMessage: buildMessage(() => message) },
  });

/**
 * Turns a body or a query into the class that the handler's parameter names, and refuses what does not fit it. Only
 * properties that the class exposes are looked at; a missing one takes the class's default.
 *
 * @throws ApiError `invalid_request` whose message names every fault.
 */
@Injectable()
export class RequestShapePipe implements PipeTransform {
  transform(value: unknown, { metatype }: ArgumentMetadata): unknown {
    if (metatype === undefined || UNSHAPED.has(metatype)) {
      return value;
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new ApiError('invalid_request', 'The body must be a JSON object.');
    }
    const shaped = plainToInstance(metatype, flat(value), {
      excludeExtraneousValues: true,
      exposeDefaultValues: true,
    });
    const faults = validateSync(shaped, { stopAtFirstError: true });
    if (faults.length > 0) {
      const messages = faults.flatMap(({ constraints }) => Object.values(constraints ?? {}));
      throw new ApiError('invalid_request', `${messages.join('; ')}.`);
    }
    return shaped;
  }
}

/** Types of parameters that are no class of ours: their own decorators check them. */
const UNSHAPED = new Set<unknown>([Object, String]);

/** Stands for an array or an object. No property of this service takes one, so every rule refuses it. */
const NESTED = Symbol('nested');

/** class-transformer would walk into nested values, and take a `constructor` that a client sent for a class. */
function flat(value: object): object {
  const fields = Object.entries(value);
  return fields.some(([, field]) => isNested(field))
    ? Object.fromEntries(fields.map(([name, field]) => [name, isNested(field) ? NESTED : field]))
    : value;
}

function isNested(field: unknown): boolean {
  return typeof field === 'object' && field !== null;
}
