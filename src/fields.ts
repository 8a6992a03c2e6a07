/** A class whose instances are made, field by field, of what someone sent or set. */
export type Shape<Shaped extends object = object> = new () => Shaped;

/** Makes a value of what is given for a field; `undefined` where that is no value for it. */
type Reader = (given: any) => unknown;

interface FieldRule {
  name: string;
  read: Reader;
  message: string;
  isOptional: boolean;
}

const rulesByShape = new Map<unknown, FieldRule[]>();

/**
 * The property is a field. One that is not given has the class's default, and is a fault where it has none.
 *
 * class-validator would take a tenth of a list's time, a quarter of the memory that a list allocates, and 7 MiB.
 *
 * @param message what the field must be, to follow its name.
 */
export function Field(read: Reader, message: string): PropertyDecorator {
  return rule(read, message, false);
}

/** The property is a {@link Field} that may be left out. */
export function OptionalField(read: Reader, message: string): PropertyDecorator {
  return rule(read, message, true);
}

function rule(read: Reader, message: string, isOptional: boolean): PropertyDecorator {
  return ({ constructor: shape }, name) => {
    const rules = rulesByShape.get(shape) ?? [];
    rules.push({ name: String(name), read, message, isOptional });
    rulesByShape.set(shape, rules);
  };
}

/**
 * Makes an instance of `shape` of what is given. Names that it does not declare are not looked at.
 *
 * @returns the instance, and what each field at fault must be, in the order in which the class declares them.
 */
export function readFields<Shaped extends object>(
  shape: Shape<Shaped>,
  given: object,
): { instance: Shaped; faults: string[] } {
  const instance = new shape() as Record<string, unknown>;
  const faults: string[] = [];
  for (const { name, read, message, isOptional } of rulesByShape.get(shape) ?? []) {
    const sent = Object.hasOwn(given, name) ? (given as Record<string, unknown>)[name] : undefined;
    const isGiven = sent !== undefined;
    if (isGiven) {
      instance[name] = read(sent);
    }
    if (instance[name] === undefined && (isGiven || !isOptional)) {
      faults.push(`${name} ${message}`);
    }
  }
  return { instance: instance as Shaped, faults };
}

/** Reads one of `values`, and nothing else. */
export const oneOf =
  <Value>(values: readonly Value[]) =>
  (given: unknown): Value | undefined =>
    values.find((value) => value === given);
