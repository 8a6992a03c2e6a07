import { getMetadataArgsStorage } from 'typeorm';

/** A column of an entity, from the entity's decorators. */
export interface EntityColumn {
  /** The property of the entity, and the member of its JSON. */
  property: string;
  name: string;
  /** The SQL type without a length. */
  type: string;
  isOptional: boolean;
  /** The value in JSON, as an SQL expression. */
  json: string;
}

/** The columns in the order in which the entity declares them. */
export function columnsOf(entity: Function): EntityColumn[] {
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

/**
 * A row of the entity's table as JSON text, as an SQL expression. PostgreSQL writes it, so every int64 is exact. An
 * optional column is left out if it is null. The first column must not be optional.
 */
export function jsonOf(columns: readonly EntityColumn[]): string {
  const members = columns.map(({ property, json, isOptional }, i) => {
    const member = `'${i === 0 ? '{' : ','}"${property}":' || ${json}`;
    return isOptional ? `coalesce(${member}, '')` : member;
  });
  // Adjacent literals become one.
  return `${members.join(' || ')} || '}'`.replaceAll(`' || '`, '');
}
