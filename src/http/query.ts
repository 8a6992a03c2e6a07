import { parse } from 'node:querystring';

/**
 * Reads the query component of a request target (`application/x-www-form-urlencoded`).
 *
 * A name sent once is a string; a name sent twice, or with brackets after it (`limit[]`, `limit[gt]`), is an
 * array, which no parameter of this service accepts. A percent sign that starts no valid encoding stands for itself.
 *
 * @returns an object without a prototype, so that no name has a meaning of its own.
 */
export function parseQuery(text: string | null | undefined): Record<string, string | string[]> {
  const query: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of Object.entries(parse(text ?? '', '&', '=', { maxKeys: 0 }))) {
    const [plain, bracket] = name.split('[', 2) as [string, string?];
    const isPlain = bracket === undefined && typeof value === 'string' && !(plain in query);
    query[plain] = isPlain ? value : [query[plain] ?? [], value ?? []].flat();
  }
  return query;
}
