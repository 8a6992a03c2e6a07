import type { EntityColumn } from '../database/columns.js';
import { Lane } from '../database/lane.js';
import type { SessionSource } from '../database/statement.js';
import { INT64_MIN } from '../int64.js';
import { cursorAfter } from './cursors.js';
import { filterValue, type List, type PageQuery } from './list.js';
import type { PageReader } from './page-reader.js';

export interface Page {
  json: string;
  next?: string;
}

/** Reads the pages of a list. Requests that wait and have the same filters share a statement, and equal ones a page. */
export class Pages {
  /** By the filters of their queries. */
  private readonly lanes = new Map<string, Lane<PageQuery, Page>>();
  private readonly sessions: SessionSource;

  constructor(
    private readonly list: List,
    private readonly reader: PageReader,
  ) {
    this.sessions = reader.pool.share(list.table);
  }

  ask(query: PageQuery, deadline: number): Promise<Page> {
    const filters = this.list.filters.filter((filter) => filterValue(query, filter) !== undefined);
    const name = filters.map(({ property }) => property).join();
    const lane = this.lanes.get(name) ?? this.laneFor(filters);
    this.lanes.set(name, lane);
    return lane.ask(query, deadline);
  }

  private laneFor(filters: EntityColumn[]): Lane<PageQuery, Page> {
    const { list, reader } = this;
    const read = reader.of(list, filters);
    const valuesOf = (query: PageQuery) => filters.map((filter) => filterValue(query, filter));
    return new Lane(
      this.sessions,
      async (queries, session, requests) => {
        const wanted = queries.map((query) => ({
          start: query.cursor === undefined ? INT64_MIN : query.cursor + 1n,
          size: query.limit + 1,
          values: valuesOf(query),
        }));
        const pages = await read(wanted, session, requests);
        return pages.map((items, i) => this.pageFrom(items, queries[i]!.limit));
      },
      {
        ...reader.limits,
        keyOf: (query) => `${query.limit} ${query.cursor} ${valuesOf(query).join('\0')}`,
        rowsOf: ({ limit }) => limit + 1,
      },
    );
  }

  private pageFrom(items: string[], limit: number): Page {
    const json = `[${items.slice(0, limit).join(',')}]`;
    if (items.length <= limit) {
      return { json };
    }
    const [, id] = /^\{"id":(-?[0-9]+)/.exec(items[limit - 1]!)!;
    return { json, next: cursorAfter(this.list.table, BigInt(id!)) };
  }
}
