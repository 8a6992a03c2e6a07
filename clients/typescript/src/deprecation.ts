/** What the service says of a deprecated operation. */
export interface Deprecation {
  /** Method and path: `GET /pets/{petId}`. */
  operation: string;
  /** Since when it is deprecated (RFC 9745). */
  since: Date;
  /** The earliest date of its removal (RFC 8594). */
  sunset?: Date;
  /** The address of the guide that says what to use in its place. */
  guide?: string;
}

/**
 * @param base what the address of the guide may be relative to.
 * @returns what the headers of a response to `operation` say; `undefined` if it is not deprecated.
 */
export function deprecationOf(
  operation: string,
  { headers }: Response,
  base: string,
): Deprecation | undefined {
  const [, seconds] = /^@(\d{1,11})$/.exec(headers.get('Deprecation') ?? '') ?? [];
  if (seconds === undefined) {
    return undefined;
  }
  const sunset = new Date(headers.get('Sunset') ?? NaN);
  const guide = linkOf(headers, 'deprecation');
  return {
    operation,
    since: new Date(Number(seconds) * 1000),
    ...(!Number.isNaN(+sunset) && { sunset }),
    ...(guide && URL.canParse(guide, base) && { guide: new URL(guide, base).href }),
  };
}

export function warn({ operation, since, sunset, guide }: Deprecation): void {
  const removal = sunset === undefined ? '' : `, to be removed on ${dateOf(sunset)} or later`;
  const more = guide === undefined ? '' : `: ${guide}`;
  console.warn(`${operation} is deprecated since ${dateOf(since)}${removal}${more}`);
}

const dateOf = (date: Date) => date.toISOString().slice(0, 10);

/** @returns the target of the `Link` that has this relation, as it was sent (RFC 8288). */
export function linkOf(headers: Headers, relation: string): string | undefined {
  const link = new RegExp(`<([^>]*)>[^<]*?;\\s*rel="?${relation}(?![\\w-])`, 'i');
  return link.exec(headers.get('Link') ?? '')?.[1];
}
