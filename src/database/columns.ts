import { getMetadataArgsStorage } from 'typeorm';

export type EntityColumn = ReturnType<typeof columnsOf>[number];

/**
 * The columns of an entity's decorators, in their order. `property` is also the member of the entity's JSON, `type` the
 * SQL type without a length, and `json` the value in JSON, as an SQL expression.
 */
export function columnsOf(entity: Function) {
  return getMetadataArgsStorage()
    .filterColumns(entity)
    .map(({ propertyName: property, options }) => {
      const { name = property, nullable: isOptional = false } = options;
      const type = String(options.type);
      return { property, name, type, isOptional, json: jsonValue(name, type, options.enum) };
    });
}

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

/** A row as JSON text, in SQL, without optional columns that are null. The first column must not be optional. */
export function jsonOf(columns: readonly EntityColumn[]): string {
  const members = columns.map(({ property, json, isOptional }, i) => {
    const member = `'${i === 0 ? '{' : ','}"${property}":' || ${json}`;
    return isOptional ? `coalesce(${member}, '')` : member;
  });
  return `${members.join(' || ')} || '}'`.replaceAll(`' || '`, '');
}
