import { ValidateBy, ValidateIf, type ValidationOptions } from 'class-validator';

/** The property may be omitted. Unlike class-validator's `@IsOptional`, this does not accept `null`. */
export const MayBeOmitted = () => ValidateIf((_object, value) => value !== undefined);

/** `test` holds for the property's value. */
export const Satisfies = (test: (value: any) => boolean, options: ValidationOptions) =>
  ValidateBy({ name: 'satisfies', validator: { validate: (value) => test(value) } }, options);

/** Several decorators as one: Nest's `applyDecorators`, but a command does not wait until Nest is loaded. */
export const AllOf =
  (...decorators: PropertyDecorator[]): PropertyDecorator =>
  (target, property) =>
    decorators.forEach((decorate) => decorate(target, property));

/** The property is an int64 as a bigint: class-validator knows numbers alone. */
export const IsInt64 = (options: ValidationOptions) =>
  Satisfies((value) => typeof value === 'bigint', options);
