import type { Pool, PoolClient } from 'pg';
import { run } from '../database/statement.js';
import { INT64_MIN } from '../int64.js';
import type { Cursors } from './cursors.js';
import type { PageStatement } from './pages.sql.js';

export interface PageRequest {
  /** 1 to 100. */
  limit: number;
  /** The value that the list is filtered by; `undefined` without a filter. */
  filter?: string;
  /** The id after which the page begins; `undefined` for the first page. */
  after?: bigint;
}

export interface Page {
  /** A JSON array of the items, in the order of their ids. */
  json: string;
  /** The cursor of the next page; `undefined` on the last page. */
  next: string | undefined;
}

/**
 * Asks the database once for all pages. Requests for the same page share it.
 *
 * @param cursors of the same list.
 * @returns the pages in the order of `requests`.
 */
export async function findPages(
  sessions: Pool | PoolClient,
  statement: PageStatement,
  cursors: Cursors,
  requests: PageRequest[],
): Promise<Page[]> {
  const wanted = new Map(requests.map((request) => [pageKey(request), request]));
  const distinct = [...wanted.values()];
  const rows = await run<[key: string, items: string | null]>(sessions, statement, [
    [...wanted.keys()],
    distinct.map(({ filter }) => filter),
    distinct.map(({ after }) => (after === undefined ? INT64_MIN : after + 1n)),
    distinct.map(({ limit }) => limit),
  ]);
  const pages = new Map(
    rows.map(([key, items]) => [key, pageFrom(items, wanted.get(key)!.limit, cursors)]),
  );
  return requests.map((request) => pages.get(pageKey(request))!);
}

/** @param items the column of {@link PageStatement}; `null` if the page has no items. */
function pageFrom(items: string | null, limit: number, cursors: Cursors): Page {
  const lines = items?.split('\n') ?? [];
  const hasMore = lines.length > limit;
  if (hasMore) {
    lines.pop();
  }
  const next = hasMore ? cursors.after(idOf(lines.at(-1)!)) : undefined;
  return { json: `[${lines.join(',')}]`, next };
}

function idOf(item: string): bigint {
  return BigInt(/^\{"id":(-?[0-9]+)/.exec(item)![1]!);
}

function pageKey({ limit, filter, after }: PageRequest): string {
  return `${limit}:${filter}:${after}`;
}
