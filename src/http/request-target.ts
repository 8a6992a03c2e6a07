import { parse } from 'node:querystring';

/**
 * A request target (RFC 9112, section 3.2) as Express routes it: the path, whose percent-encodings are valid and do not
 * stand for unreserved characters (RFC 3986, section 6.2.2.2), and the query.
 */
export function pathAndQuery(target: string): string {
  let local = target;
  if (!target.startsWith('/') || target.includes('#')) {
    // Without scheme and authority. A target may not contain a fragment, but the router would treat a `#` as its start.
    [local = ''] = target.replace(/^https?:\/\/[^/?#]*/i, '').split('#', 1);
    local = local.startsWith('/') ? local : `/${local}`;
  }
  return local.includes('%') ? local.replace(/^[^?]+/, decodable) : local;
}

/** A percent-encoding that is invalid or not UTF-8 stands for itself: its `%` becomes `%25`. */
const decodable = (path: string): string =>
  path.replaceAll(/(?:%[0-9a-f]{2})+|%/gi, (encoded) => {
    try {
      return encodeURIComponent(decodeURIComponent(encoded));
    } catch {
      return encoded.replaceAll('%', '%25');
    }
  });

/**
 * Reads a query (`application/x-www-form-urlencoded`) into an object without a prototype. A name sent once is a string. A
 * name sent twice, or with brackets after it (`limit[gt]`), is an array, which no parameter of this service accepts.
 */
export function parseQuery(text: string | null): Record<string, string | string[]> {
  const query = parse(text ?? '', '&', '=', { maxKeys: 0 }) as Record<string, string | string[]>;
  for (const name in query) {
    const bracket = name.indexOf('[');
    if (bracket >= 0) {
      query[name.slice(0, bracket)] = [];
      delete query[name];
    }
  }
  return query;
}
