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

/** @returns what the headers of a response to `operation` say; `undefined` if it is not deprecated. */
export function deprecationOf(
  operation: string,
  { url }: Request,
  { headers }: Response,
): Deprecation | undefined {
  const [, seconds] = /^@(\d+)$/.exec(headers.get('Deprecation') ?? '') ?? [];
  if (seconds === undefined) {
    return undefined;
  }
  const sunset = headers.get('Sunset');
  const guide = linkOf(headers, 'deprecation');
  return {
    operation,
    since: new Date(Number(seconds) * 1000),
    ...(sunset !== null && { sunset: new Date(sunset) }),
    ...(guide !== undefined && { guide: new URL(guide, url).href }),
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
  return new RegExp(`<([^>]*)>; rel="${relation}"`).exec(headers.get('Link') ?? '')?.[1];
}
