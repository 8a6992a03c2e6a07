import { Transform } from 'class-transformer';
import type { Response } from 'express';
import { JsonText } from '../http/express-classes.js';
import { AllOf, IsInt64, MayBeOmitted, WholeNumber } from '../validation/decorators.js';
import { idBefore } from './cursors.js';
import { filterValue, type List, type PageQuery } from './list.js';
import type { Page } from './pages.js';

export const DEFAULT_LIMIT = 20;

export const Limit = () => WholeNumber(1, 100, ', sent once, in plain digits');

/** The property is a `cursor` of the list of that name, as the id that it was made of, or omitted. */
export function Cursor(list: string): PropertyDecorator {
  return AllOf(
    // A text that is not a cursor stays a string, which `IsInt64` rejects.
    Transform(({ value }) =>
      typeof value === 'string' ? (idBefore(list, value) ?? value) : value,
    ),
    MayBeOmitted(),
    IsInt64({ message: '$property must be one that this service issued, sent once' }),
  );
}

/** @returns the body for a page. Adds a `Link` to the next one, if any. @param address that of the list, without a query. */
export function pageResponse(
  response: Response,
  { json, next }: Page,
  address: string,
  { filters }: List,
  query: PageQuery,
): JsonText {
  if (next !== undefined) {
    let parameters = `limit=${query.limit}`;
    for (const filter of filters) {
      const value = filterValue(query, filter);
      parameters +=
        value === undefined ? '' : `&${filter.property}=${encodeURIComponent(`${value}`)}`;
    }
    response.append('Link', `<${address}?${parameters}&cursor=${next}>; rel="next"`);
  }
  return new JsonText(json);
}
