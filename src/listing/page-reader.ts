import { Injectable } from '@nestjs/common';
import type { PoolClient } from 'pg';
import type { EntityColumn } from '../database/columns.js';
import type { LaneLimits } from '../database/lane.js';
import { ServingPool } from '../database/pool.js';
import { INT64_MAX } from '../int64.js';
import type { List } from './list.js';

export interface WantedPage {
  start: bigint;
  /** The most items to read: one more than fit on the page, to see whether more follow. */
  size: number;
  values: unknown[];
}

/** Reads pages of lists. Each engine has a class that extends this. */
@Injectable()
export abstract class PageReader {
  /** Those of statements that read pages. */
  readonly limits: LaneLimits = {};

  constructor(readonly pool: ServingPool) {}

  /**
   * @returns a function that reads pages with these `filters`: the items of each, as JSON texts by id. A page may have an id
   *   that is higher than one that is not committed yet: without it, acknowledged rows would lack.
   */
  abstract of(list: List, filters: readonly EntityColumn[]): ReadPages;
}

/** @param requests how many requests the pages are for, which is only measured. */
export type ReadPages = (
  pages: readonly WantedPage[],
  session: PoolClient,
  requests?: number,
) => Promise<string[][]>;

/** The columns of the index that serves a list with these filters, as SQL: also the order of its rows. */
export const keyOf = (filters: readonly EntityColumn[]) =>
  [...filters.map(({ name }) => name), 'id'].join(', ');

/**
 * The condition for the rows of a list from the id `start` on, as SQL: with filters, a range of them and the id, for which
 * only their index can be used. For `filter = …`, the planner might read the primary key and filter the rows.
 */
export function rangeFrom(start: string, filters: readonly EntityColumn[], values: string[]) {
  const key = keyOf(filters);
  return filters.length === 0
    ? `id >= ${start}`
    : `(${key}) >= (${[...values, start].join(', ')}) and (${key}) <= (${[...values, INT64_MAX].join(', ')})`;
}
