import type { Response } from 'express';

/** Header fields by name, in the spelling in which they are sent. */
export type Headers = Record<string, string | number>;

type WithHeaders = Response & { addedHeaders?: Headers };

/**
 * Gives an answer more headers. They are kept until the adapter sends the answer, all in one: Node's own `setHeader`
 * checks and copies each of them, which costs as much as a good part of the rest.
 */
export function addHeaders(response: Response, headers: Readonly<Headers>): void {
  const answer = response as WithHeaders;
  Object.assign((answer.addedHeaders ??= {}), headers);
}

/** What {@link addHeaders} was given for an answer. */
export function addedHeaders(response: Response): Headers | undefined {
  return (response as WithHeaders).addedHeaders;
}
