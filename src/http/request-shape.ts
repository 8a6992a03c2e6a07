import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ApiError } from '../errors/api-error.js';
import { readFields, type Shape } from '../fields.js';
import { queryOf } from './query.js';
import { requestOf } from './request.js';

/**
 * The request's query as a handler's argument, {@link shaped} as the class says.
 *
 * It is no pipe, as for those Nest makes six promises a parameter.
 */
export const ShapedQuery = createParamDecorator((shape: Shape, context: ExecutionContext) =>
  shaped(shape, queryOf(requestOf(context))),
);

/**
 * Puts a query or a body into the class that it has to fit.
 *
 * @throws ApiError `invalid_request` whose message names every fault.
 */
export function shaped<Shaped extends object>(shape: Shape<Shaped>, given: object): Shaped {
  const { instance, faults } = readFields(shape, given);
  if (faults.length > 0) {
    throw new ApiError('invalid_request', `${faults.join('; ')}.`);
  }
  return instance;
}
