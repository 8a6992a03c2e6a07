import { applyDecorators } from '@nestjs/common';
import { IsOptional, Matches } from 'class-validator';
import { Satisfies } from '../http/request-shape.js';
import type { Cursors } from './cursors.js';
import type { PageRequest } from './pages.js';

/** What the query of every list has, each value as sent. */
export interface ListQuery {
  limit: string;
  cursor?: string;
}

/** `limit` where a query leaves it out (interface, part 8). */
export const DEFAULT_LIMIT = '20';

/** The property is a `limit`: 1 to 100 in plain decimal. */
export const Limit = () =>
  Matches(/^(?:[1-9][0-9]?|100)$/, {
    message: 'limit must be a whole number from 1 to 100, sent once, in plain digits',
  });

/** The property is a `cursor`, from the `Link` of the page before, or left out. */
export const Cursor = (cursors: Cursors) =>
  applyDecorators(
    IsOptional(),
    Satisfies(
      (value) => typeof value === 'string' && cursors.idBefore(value) !== undefined,
      'cursor must be one that this service issued, sent once',
    ),
  );

/** @returns the page that a valid query asks for. */
export function pageRequest(
  cursors: Cursors,
  { limit, cursor }: ListQuery,
  filter?: string,
): PageRequest {
  return {
    limit: Number(limit),
    filter,
    after: cursor === undefined ? undefined : cursors.idBefore(cursor),
  };
}
