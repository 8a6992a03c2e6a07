import { Transform } from 'class-transformer';
import { ValidateBy, ValidateIf, type ValidationOptions } from 'class-validator';

/** The property may be omitted. Unlike class-validator's `@IsOptional`, this does not accept `null`. */
export const MayBeOmitted = () => ValidateIf((_object, value) => value !== undefined);

/** `test` holds for the property's value. */
export const Satisfies = (test: (value: any) => boolean, options: ValidationOptions) =>
  ValidateBy({ name: 'satisfies', validator: { validate: (value) => test(value) } }, options);

/**
 * Combines decorators into one, as Nest's `applyDecorators` does. It does not import Nest, so that the program's
 * commands start without loading it.
 */
export const AllOf =
  (...decorators: PropertyDecorator[]): PropertyDecorator =>
  (target, property) =>
    decorators.forEach((decorate) => decorate(target, property));

/**
 * The property is an int64, as a bigint. Bodies and cursors have bigints only if they are int64s, so the range is not
 * checked here. A body has a number if JavaScript represents it exactly.
 */
export const IsInt64 = (options: ValidationOptions) =>
  AllOf(
    Transform(({ value }) => (Number.isSafeInteger(value) ? BigInt(value) : value)),
    Satisfies((value) => typeof value === 'bigint', options),
  );
