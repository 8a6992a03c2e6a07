import { parse } from 'node:querystring';

/**
 * Reads the query component of a request target (`application/x-www-form-urlencoded`).
 *
 * A name sent once is a string; a name sent twice, or with brackets after it (`limit[]`, `limit[gt]`), is an array,
 * which no parameter of this service accepts. An invalid percent-encoding stands for itself.
 *
 * @returns an object without a prototype, so that no name refers to an inherited property.
 */
export function parseQuery(text: string | null): Record<string, string | string[]> {
  const query = parse(text ?? '', '&', '=', { maxKeys: 0 }) as Record<string, string | string[]>;
  for (const name in query) {
    const bracket = name.indexOf('[');
    if (bracket >= 0) {
      const plain = name.slice(0, bracket);
      query[plain] = [];
      delete query[name];
    }
  }
  return query;
}
