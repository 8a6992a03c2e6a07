import { isUtf8 } from 'node:buffer';

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
