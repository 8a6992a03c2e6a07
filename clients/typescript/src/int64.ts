/** The int64 fields of all bodies: bigints in the program, numbers in JSON. */
export const INT64_FIELDS: readonly string[] = ['id', 'petId', 'categoryId'];

// It does not match in a string, because JSON escapes the quotes there.
const FIELD = new RegExp(`"(${INT64_FIELDS.join('|')})"(\\s*:\\s*)(-?\\d+)(?=\\s*[,}])`, 'g');

/** What a bigint is in JSON at first. No text of the service has U+0000. */
const MARKED = /"\\u0000(-?\d+)"/g;

/**
 * Parses JSON in which `id`, `petId` and `categoryId` have any of the digits of an int64; JSON.parse would round them beyond
 * 2^53. They become bigints.
 *
 * @throws SyntaxError if it is not JSON.
 */
export function parse(json: string): unknown {
  return JSON.parse(json.replace(FIELD, '"$1"$2"\\u0000$3"'), (key, value) =>
    INT64_FIELDS.includes(key) && typeof value === 'string' && value.startsWith('\0')
      ? BigInt(value.slice(1))
      : value,
  );
}

/** Writes JSON, in which bigints are numbers with all their digits; JSON.stringify would throw a TypeError. */
export function stringify(value: unknown): string {
  // As it was before a `toJSON` of bigints, which applications define.
  const marked = JSON.stringify(value, function (this: Record<string, unknown>, key, field) {
    const own = typeof field === 'bigint' ? field : this[key];
    return typeof own === 'bigint' ? `\0${own}` : field;
  });
  return marked.replace(MARKED, '$1');
}
