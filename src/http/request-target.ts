import { isUtf8 } from 'node:buffer';
import { parse } from 'node:querystring';

/**
 * A request target (RFC 9112, section 3.2) as Express routes it: the path and the query. `decodeURIComponent` does not
 * fail on the path, and its unreserved characters are decoded already (RFC 3986, section 6.2.2.2).
 */
export const pathAndQuery = (target: string): string => withDecodablePath(originForm(target));

/**
 * The target without scheme and authority, so that it begins with `/`. A target may not contain a fragment, but the
 * router would treat a `#` as the start of one. So `#` and what follows it is dropped.
 */
function originForm(target: string): string {
  if (target.startsWith('/') && !target.includes('#')) {
    return target;
  }
  const [local = ''] = target.replace(/^https?:\/\/[^/?#]*/i, '').split('#', 1);
  return local.startsWith('/') ? local : `/${local}`;
}

/** A percent-encoding that is invalid or not UTF-8 stands for itself: its `%` becomes `%25`. */
function withDecodablePath(url: string): string {
  if (!url.includes('%')) {
    return url;
  }
  const [path = '', ...query] = url.split('?');
  const decodable = path
    .replaceAll(/(?:%[0-9a-f]{2})+|%/gi, (encoded) =>
      encoded !== '%' && isUtf8(Buffer.from(encoded.replaceAll('%', ''), 'hex'))
        ? encoded
        : encoded.replaceAll('%', '%25'),
    )
    .replaceAll(/%(?:2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)/gi, decodeURIComponent);
  return [decodable, ...query].join('?');
}

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
