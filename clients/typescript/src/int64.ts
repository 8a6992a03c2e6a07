/** The int64 fields of all bodies: bigints in the program, numbers in JSON. */
export const INT64_FIELDS: readonly string[] = ['id', 'petId', 'categoryId'];

// Neither matches in a string, because JSON escapes the quotes there.
const FIELD = `"(${INT64_FIELDS.join('|')})"\\s*:\\s*`;
const UNQUOTED = new RegExp(`${FIELD}(-?\\d+)(?=\\s*[,}])`, 'g');
const QUOTED = new RegExp(`${FIELD}"(-?\\d+)"`, 'g');

/** Parses JSON in which an int64 has any of its digits; JSON.parse would round it beyond 2^53. */
export function parse(json: string): unknown {
  const quoted = json.replace(UNQUOTED, '"$1":"$2"');
  return JSON.parse(quoted, (key, value) =>
    INT64_FIELDS.includes(key) && typeof value === 'string' ? BigInt(value) : value,
  );
}

export function stringify(value: unknown): string {
  const quoted = JSON.stringify(value, (_key, field) =>
    typeof field === 'bigint' ? field.toString() : field,
  );
  return quoted.replace(QUOTED, '"$1":$2');
}
