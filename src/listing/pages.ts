import type { Pool, PoolClient } from 'pg';
import { Batcher } from '../database/batcher.js';
import { run, Statement } from '../database/statement.js';
import { INT64_MIN } from '../int64.js';
import type { Standbys } from '../standbys/standbys.js';
import type { Cursors } from './cursors.js';

/** The parts of a list's statement that differ from list to list, in SQL. */
export interface PageSource {
  table: string;
  /** An item as JSON text that begins with its `id`. */
  json: string;
  /** The condition: ids from `start` on and, if the list has a filter, rows that match it. One index serves it. */
  range: (start: string, filter: string) => string;
  /** The order of this index. */
  order: string;
  isFiltered: boolean;
}

/** The parts for a list that the primary key serves. */
export const BY_ID = { range: (start: string) => `id >= ${start}`, order: 'id', isFiltered: false };

/**
 * The statement that reads pages. The parameters are arrays with an element for each page: `$1` its key, `$2` its
 * filter, `$3` the id that it starts at, `$4` its size.
 *
 * Returns a row for each page: its key, and its items as lines of JSON (JSON escapes line breaks in strings). If more
 * items follow the page, it has one more item than its size.
 *
 * A page may contain an id that is higher than one that is not committed yet. It cannot end before the uncommitted id,
 * because it would then lack animals that were acknowledged. A snapshot does not show where to end either: PostgreSQL
 * assigns the id of a row and that of its transaction one after the other, so their orders may differ.
 */
export class PageStatement extends Statement {
  constructor(
    name: string,
    readonly source: PageSource,
  ) {
    const { table, json, range, order } = source;
    super(
      name,
      `
  select wanted.key, page.items
    from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
 lateral (
          select string_agg(${json}, E'\\n' order by ${order}) as items
            from (select *
                    from ${table}
                   where ${range('wanted.start', 'wanted.filter')}
                   order by ${order}
                   limit wanted.size + 1) as ${table}
         ) as page`,
    );
  }
}

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

/** Reads the pages of a list. All requests that wait share a statement, and requests for the same page share it too. */
export class Pages {
  private readonly batcher: Batcher<PageRequest, Page>;

  /** @param cursors of the same list. */
  constructor(
    private readonly statement: PageStatement,
    private readonly cursors: Cursors,
    standbys: Standbys,
  ) {
    this.batcher = new Batcher(statement.name.replaceAll('-', '_'), (requests) =>
      standbys.read((sessions) => this.find(sessions, requests)),
    );
  }

  /** Throws what `Batcher.ask` throws. */
  ask(request: PageRequest): Promise<Page> {
    return this.batcher.ask(request);
  }

  private async find(sessions: Pool | PoolClient, requests: PageRequest[]): Promise<Page[]> {
    const wanted = new Map(requests.map((request) => [pageKey(request), request]));
    const distinct = [...wanted.values()];
    const rows = await run<[key: string, items: string | null]>(sessions, this.statement, [
      [...wanted.keys()],
      distinct.map(({ filter }) => filter),
      distinct.map(({ after }) => (after === undefined ? INT64_MIN : after + 1n)),
      distinct.map(({ limit }) => limit),
    ]);
    const pages = new Map(
      rows.map(([key, items]) => [key, pageFrom(items, wanted.get(key)!.limit, this.cursors)]),
    );
    return requests.map((request) => pages.get(pageKey(request))!);
  }
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
