import { Field, OptionalField } from '../fields.js';
import type { Cursors } from './cursors.js';

/** What the query of every list has. */
export interface ListQuery {
  /** 1 to 100. */
  limit: number;
  /** The id that the page follows; the first page where it is left out. */
  cursor?: bigint;
}

/** `limit` where a query leaves it out (interface, part 8). */
export const DEFAULT_LIMIT = 20;

/** The property is a `limit`: 1 to 100 in plain decimal. */
export const Limit = () =>
  Field(readLimit, 'must be a whole number from 1 to 100, sent once, in plain digits');

/** The property is a `cursor`, from the `Link` of the page before, or left out. */
export const Cursor = (cursors: Cursors) =>
  OptionalField(
    (sent) => (typeof sent === 'string' ? cursors.idBefore(sent) : undefined),
    'must be one that this service issued, sent once',
  );

function readLimit(sent: unknown): number | undefined {
  return typeof sent === 'string' && /^(?:[1-9][0-9]?|100)$/.test(sent) ? Number(sent) : undefined;
}
