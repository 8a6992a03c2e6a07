import { type ClassConstructor, plainToInstance } from 'class-transformer';
import { getMetadataStorage, type ValidationError, validateSync } from 'class-validator';

const declaredByType = new Map<unknown, ReadonlySet<string>>();

/**
 * Makes an instance of a class with class-transformer's and class-validator's decorators, and validates it.
 *
 * @param given fields by name. Ignored are fields for which the class has no decorators of class-validator, and fields
 *   on the prototype of `given`.
 * @returns the instance, and an error for each invalid field, in the order in which the class declares them.
 */
export function validate<T extends object>(
  type: ClassConstructor<T>,
  given: object,
): { instance: T; errors: ValidationError[] } {
  const instance = plainToInstance(type, declaredFields(type, given));
  const errors = validateSync(instance, { stopAtFirstError: true });
  return { instance, errors };
}

/** What is wrong, one message for each invalid field. */
export function messagesOf(errors: ValidationError[]): string[] {
  return errors.flatMap(({ constraints }) => Object.values(constraints ?? {}).slice(0, 1));
}

/**
 * The fields of `given` that the class declares. No class has a field that is an object, so an object or array is
 * replaced by `null`, which every field rejects. Otherwise class-transformer would descend into it, and use the value
 * of a client's key `constructor` as a class.
 */
function declaredFields(type: ClassConstructor<object>, given: object): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const name of declaredNames(type)) {
    if (Object.hasOwn(given, name)) {
      const value = (given as Record<string, unknown>)[name];
      fields[name] = typeof value === 'object' ? null : value;
    }
  }
  return fields;
}

function declaredNames(type: ClassConstructor<object>): ReadonlySet<string> {
  let names = declaredByType.get(type);
  if (names === undefined) {
    const rules = getMetadataStorage().getTargetValidationMetadatas(type, '', false, false);
    names = new Set(rules.map(({ propertyName }) => propertyName));
    declaredByType.set(type, names);
  }
  return names;
}
