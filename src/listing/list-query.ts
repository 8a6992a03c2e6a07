import { applyDecorators } from '@nestjs/common';
import { Transform } from 'class-transformer';
import { Max, Min } from 'class-validator';
import type { Response } from 'express';
import { JsonText } from '../http/json-text.js';
import { IsInt64, MayBeOmitted } from '../validation/decorators.js';
import { Cursors } from './cursors.js';
import type { Page } from './pages.js';

/** The default of `limit` (interface, part 8). */
export const DEFAULT_LIMIT = 20;

/** The property is a `limit`: 1 to 100 in plain decimal. */
export function Limit(): PropertyDecorator {
  const message = '$property must be a whole number from 1 to 100, sent once, in plain digits';
  return applyDecorators(
    // Any other text stays a string, which `Min` and `Max` reject.
    Transform(({ value }) => (/^[1-9][0-9]*$/.test(value) ? Number(value) : value)),
    Min(1, { message }),
    Max(100, { message }),
  );
}

/** The property is a `cursor` of the list of that name, as the id that it was made of, or omitted. */
export function Cursor(list: string): PropertyDecorator {
  const cursors = new Cursors(list);
  return applyDecorators(
    // A text that is not a cursor stays a string, which `IsInt64` rejects.
    Transform(({ value }) =>
      typeof value === 'string' ? (cursors.idBefore(value) ?? value) : value,
    ),
    MayBeOmitted(),
    IsInt64({ message: '$property must be one that this service issued, sent once' }),
  );
}

/**
 * @returns the body for a page. If more items follow, adds a `Link` to the next page to the response (RFC 8288).
 *
 * @param address the URL of the list with its `limit` and filter. The cursor of the next page is added to it.
 */
export function pageResponse(response: Response, { json, next }: Page, address: string): JsonText {
  if (next !== undefined) {
    response.setHeader('Link', `<${address}&cursor=${next}>; rel="next"`);
  }
  return new JsonText(json);
}
