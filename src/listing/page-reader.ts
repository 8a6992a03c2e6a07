import type { EntityColumn } from '../database/columns.js';
import { INT64_MAX } from '../int64.js';
import type { List } from './list.js';

export interface WantedPage {
  /** The least id that may be on the page. */
  start: bigint;
  /** The most items to read: one more than fit on the page, to see whether more follow. */
  size: number;
  /** A value for each of the filters. */
  values: unknown[];
}

/** Reads pages of lists. Each engine has a class that extends this. */
export abstract class PageReader {
  /**
   * @param filters those of the list that all these pages have.
   * @returns the items of each page, in its order, as JSON texts by id. A page may have an id that is higher than one that
   *   is not committed yet: without it, acknowledged rows would lack.
   */
  abstract read(
    list: List,
    filters: readonly EntityColumn[],
    pages: readonly WantedPage[],
  ): Promise<string[][]>;
}

/**
 * The condition for the rows of a list from the id `start` on, as SQL: with filters, a range of them and the id, for which
 * only their index can be used. For `filter = …`, the planner might read the primary key and filter the rows.
 */
export function rangeFrom(
  start: string,
  filters: readonly EntityColumn[],
  values: string[],
): string {
  const columns = [...filters.map(({ name }) => name), 'id'].join(', ');
  return filters.length === 0
    ? `id >= ${start}`
    : `(${columns}) >= (${[...values, start].join(', ')}) and (${columns}) <= (${[...values, INT64_MAX].join(', ')})`;
}

/** The order of a list's rows, which only the index of the filters and the id has. */
export const orderBy = (filters: readonly EntityColumn[]) =>
  [...filters.map(({ name }) => name), 'id'].join(', ');
