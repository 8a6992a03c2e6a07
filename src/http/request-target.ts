/** A request target (RFC 9112, section 3.2) as the routes take it: the path and the query, of which the path can be decoded. */
export const pathAndQuery = (target: string): string => withDecodablePath(originForm(target));

/** A target has no fragment; what looks like one would end the path for the router. */
function originForm(target: string): string {
  if (target.startsWith('/') && !target.includes('#')) {
    return target;
  }
  const [local = ''] = target.replace(/^https?:\/\/[^/?#]*/i, '').split('#', 1);
  return local.startsWith('/') ? local : `/${local}`;
}

/** A percent sign that starts no UTF-8 sequence stands for itself, as in a query. */
function withDecodablePath(url: string): string {
  if (!url.includes('%')) {
    return url;
  }
  const [path = '', ...query] = url.split('?');
  try {
    decodeURIComponent(path);
    return url;
  } catch {
    return [path.replaceAll('%', '%25'), ...query].join('?');
  }
}
