import { Transform } from 'class-transformer';
import {
  getMetadataStorage,
  Max,
  Min,
  ValidateBy,
  ValidateIf,
  type ValidationOptions,
} from 'class-validator';

const properties = new Map<Function, readonly string[]>();

/** The properties that a DTO declares: its fields, and what has a validator, which it may inherit without a field. */
export function propertiesOf(dto: Function): readonly string[] {
  let names = properties.get(dto);
  if (names === undefined) {
    const validated = getMetadataStorage().getTargetValidationMetadatas(dto, '', true, false);
    const fields = Object.keys(new (dto as new () => object)());
    names = [...new Set([...fields, ...validated.map(({ propertyName }) => propertyName)])];
    properties.set(dto, names);
  }
  return names;
}

export const rememberedQueries = new Map<unknown, { unless: string; known: Map<string, object> }>();

/**
 * The pipe validates each query of this class once, because validation takes a sixth of a list's time: requests that send
 * the same parameters get the same, frozen object. Those with the parameter `unless` are hardly ever sent twice. The others
 * should have few valid values: the first thousand are remembered.
 */
export function RememberedWithout(unless: string): ClassDecorator {
  return (query) => void rememberedQueries.set(query, { unless, known: new Map() });
}

/** The property may be omitted. Unlike class-validator's `@IsOptional`, this does not accept `null`. */
export const MayBeOmitted = () => ValidateIf((_object, value) => value !== undefined);

export const Satisfies = (test: (value: any) => boolean, options: ValidationOptions) =>
  ValidateBy({ name: 'satisfies', validator: { validate: (value) => test(value) } }, options);

/** Nest's `applyDecorators`, without Nest, which the program's commands would load. */
export const AllOf =
  (...decorators: PropertyDecorator[]): PropertyDecorator =>
  (target, property) =>
    decorators.forEach((decorate) => decorate(target, property));

/** The property is a number that is sent as text: in plain decimal digits. */
export const WholeNumber = (
  least: number,
  most: number,
  reason = `must be a whole number from ${least} to ${most}`,
) => {
  const message = `$property ${reason}`;
  return AllOf(
    // Any other text stays a string, which `Min` and `Max` reject.
    Transform(({ value }) => (/^(?:0|[1-9][0-9]*)$/.test(value) ? Number(value) : value)),
    Min(least, { message }),
    Max(most, { message }),
  );
};

/**
 * The property is an int64, as a bigint. A body has it as a number if a double holds it exactly, else as a bigint. For an
 * integer that stays a number, use class-validator's `@IsInt`, `@Min` and `@Max`.
 */
export const IsInt64 = (options: ValidationOptions) =>
  AllOf(
    Transform(({ value }) => (Number.isSafeInteger(value) ? BigInt(value) : value)),
    Satisfies((value) => typeof value === 'bigint', options),
  );
