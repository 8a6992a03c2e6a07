import { isUtf8 } from 'node:buffer';

/**
 * A request target (RFC 9112, section 3.2) as Express routes it: the path, whose percent-encodings are valid and do not
 * stand for unreserved characters (RFC 3986, section 6.2.2.2), and the query. `*` stays.
 */
export function pathAndQuery(target: string): string {
  let local = target;
  if (target !== '*' && (!target.startsWith('/') || target.includes('#'))) {
    // Without scheme and authority. A target may not contain a fragment, but the router would treat a `#` as its start.
    [local = ''] = target.replace(/^https?:\/\/[^/?#]*/i, '').split('#', 1);
    local = local.startsWith('/') ? local : `/${local}`;
  }
  return local.includes('%') ? local.replace(/^[^?]+/, normalized) : local;
}

/** Percent-encodings that are invalid or not UTF-8 stand for themselves: their `%` becomes `%25`. */
const normalized = (text: string): string =>
  text.replaceAll(/(?:%[0-9a-f]{2})+|%/gi, (encoded) =>
    encoded !== '%' && isUtf8(Buffer.from(encoded.replaceAll('%', ''), 'hex'))
      ? encodeURIComponent(decodeURIComponent(encoded))
      : encoded.replaceAll('%', '%25'),
  );

/**
 * Reads a query (`application/x-www-form-urlencoded`) into an object without a prototype. A name sent once is a string. A
 * name sent again, or with brackets after it (`limit[gt]`), is an array, which no parameter of this service accepts.
 */
export function parseQuery(text: string | null): Record<string, string | string[]> {
  // A literal, because `Object.create(null)` makes a slow object.
  const query = { __proto__: null } as unknown as Record<string, string | string[]>;
  // URLSearchParams takes a microsecond for each `%` that it cannot decode.
  const valid = text?.includes('%') ? normalized(text) : (text ?? '');
  // Not its iterator, which is slower.
  new URLSearchParams(`?${valid}`).forEach((value, name) => {
    const bracket = name.indexOf('[');
    const key = bracket < 0 ? name : name.slice(0, bracket);
    const [earlier, given] = [query[key], bracket < 0 ? value : name];
    if (Array.isArray(earlier)) {
      earlier.push(given);
    } else {
      query[key] = earlier !== undefined ? [earlier, given] : bracket < 0 ? value : [given];
    }
  });
  return query;
}
