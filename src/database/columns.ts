import { getMetadataArgsStorage } from 'typeorm';
import { OperatorError } from '../errors/operator-error.js';

export type EntityColumn = ReturnType<typeof columnsOf>[number];

/**
 * The columns of an entity's decorators, in their order, first those of the classes that it extends. `property` is also the member of the entity's JSON, `type` the
 * SQL type without a length, and `json` the value in JSON, as an SQL expression. A column is not shown in JSON if its
 * decorator says `select: false`, or if it is the `@DeleteDateColumn`: a row that has one is deleted.
 *
 * @throws OperatorError if a column has no type: SQL is made of it.
 */
export function columnsOf(entity: Function) {
  return getMetadataArgsStorage()
    .filterColumns(withBaseClasses(entity))
    .filter(({ mode }) => mode !== 'virtual-property')
    .map(({ propertyName: property, options, mode }) => {
      const { name = property, type, nullable: isOptional = false, select = true } = options;
      if (typeof type !== 'string') {
        throw new OperatorError(
          `${entity.name}.${property} has no SQL type: write one in its decorator, such as { type: 'text' }.`,
        );
      }
      const isDeletion = mode === 'deleteDate';
      const json = jsonValue(name, type, options.enum);
      return {
        property,
        name,
        type,
        isOptional,
        isDeletion,
        isShown: select && !isDeletion,
        json,
      };
    });
}

function withBaseClasses(entity: Function): Function[] {
  const base = Object.getPrototypeOf(entity) as Function;
  // Only `Function.prototype`, of whatever realm, has none.
  return [entity, ...(base.prototype === undefined ? [] : withBaseClasses(base))];
}

/** The condition for rows that are not deleted, in SQL after another condition. Empty without a `@DeleteDateColumn`. */
export const andNotDeleted = (columns: readonly EntityColumn[]): string =>
  columns.map(({ name, isDeletion }) => (isDeletion ? ` and ${name} is null` : '')).join('');

/** `to_json` is right for every type. The other forms of integers and of fixed values are faster. */
function jsonValue(name: string, type: string, values: unknown): string {
  if (/^(bigint|integer|smallint)$/.test(type)) {
    return name;
  }
  if (values !== undefined) {
    return `'"' || ${name} || '"'`;
  }
  if (type === 'timestamp with time zone') {
    // In UTC to the microsecond, PostgreSQL's resolution (RFC 3339, section 5.6): always 27 characters.
    return `'"' || to_char(${name} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"'`;
  }
  return `to_json(${name})`;
}

/** A row as JSON text, in SQL, without optional columns that are null. The first one that is shown must not be optional. */
export function jsonOf(columns: readonly EntityColumn[]): string {
  const members = columns
    .filter(({ isShown }) => isShown)
    .map(({ property, json, isOptional }, i) => {
      const member = `'${i === 0 ? '{' : ','}"${property}":' || ${json}`;
      return isOptional ? `coalesce(${member}, '')` : member;
    });
  return `${members.join(' || ')} || '}'`.replaceAll(`' || '`, '');
}
