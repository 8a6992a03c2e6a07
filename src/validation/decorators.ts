import { ValidateBy, ValidateIf, type ValidationOptions } from 'class-validator';

/** The property may be omitted. Unlike class-validator's `@IsOptional`, this does not accept `null`. */
export const MayBeOmitted = () => ValidateIf((_object, value) => value !== undefined);

/** `test` holds for the property's value. */
export const Satisfies = (test: (value: any) => boolean, options: ValidationOptions) =>
  ValidateBy({ name: 'satisfies', validator: { validate: (value) => test(value) } }, options);

/** The property is an int64 as a bigint: class-validator knows numbers alone. */
export const IsInt64 = (options: ValidationOptions) =>
  Satisfies((value) => typeof value === 'bigint', options);
