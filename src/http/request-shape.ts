import { Injectable, type PipeTransform, type ArgumentMetadata } from '@nestjs/common';
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
 * the fields that the class declares are looked at; a missing one takes the class's default.
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
    const shaped = filled(new metatype(), value as Record<string, unknown>);
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

/** By hand: class-transformer allocated a tenth of all that a list takes. */
function filled(shape: Record<string, unknown>, fields: Record<string, unknown>): object {
  for (const name of Object.keys(shape)) {
    if (Object.hasOwn(fields, name) && fields[name] !== undefined) {
      shape[name] = fields[name];
    }
  }
  return shape;
}
