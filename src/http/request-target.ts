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

const TAIL = '%[89ab][0-9a-f]';

/** Percent-encodings of UTF-8 (RFC 3629, section 4), or a `%` that belongs to none. */
const ENCODED = new RegExp(
  '(?:%[0-7][0-9a-f]' +
    `|%(?:c[2-9a-f]|d[0-9a-f])${TAIL}` +
    `|%(?:e0(?=%[ab])|ed(?=%[89])|e[1-9a-cef])${TAIL}${TAIL}` +
    `|%(?:f0(?=%[9ab])|f4(?=%8)|f[1-3])${TAIL}${TAIL}${TAIL})+|%`,
  'gi',
);

/** A percent-encoding that is invalid or not UTF-8 stands for itself: its `%` becomes `%25`. */
const normalized = (text: string): string =>
  text.replaceAll(ENCODED, (encoded) =>
    encoded === '%' ? '%25' : encodeURIComponent(decodeURIComponent(encoded)),
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
