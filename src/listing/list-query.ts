import type { Response } from 'express';
import { JsonText } from '../http/express-classes.js';
import { WholeNumber } from '../validation/decorators.js';
import type { PageQuery } from './list.js';
import type { Page } from './pages.js';

export const DEFAULT_LIMIT = 20;

export const Limit = () => WholeNumber(1, 100, 'must be 1 to 100 in plain digits, sent once');

/** @returns the body for a page. Adds a `Link` to the next one, if any. @param address that of the list, without a query. */
export function pageResponse(
  response: Response,
  { json, next }: Page,
  address: string,
  query: PageQuery,
): JsonText {
  if (next !== undefined) {
    let parameters = '';
    for (const [name, value] of Object.entries({ ...query, cursor: next })) {
      parameters += value === undefined ? '' : `&${name}=${encodeURIComponent(`${value}`)}`;
    }
    response.append('Link', `<${address}?${parameters.slice(1)}>; rel="next"`);
  }
  return new JsonText(json);
}
