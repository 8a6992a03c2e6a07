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
 * The property is an int64, as a bigint. A body has it as a number if a double holds it exactly, else as a bigint, which
 * bodies and cursors contain only in the range of int64. For an integer that stays a number, use class-validator's
 * `@IsInt`, `@Min` and `@Max`.
 */
export const IsInt64 = (options: ValidationOptions) =>
  AllOf(
    Transform(({ value }) => (Number.isSafeInteger(value) ? BigInt(value) : value)),
    Satisfies((value) => typeof value === 'bigint', options),
  );
