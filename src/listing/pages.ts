import type { EntityColumn } from '../database/columns.js';
import { Lane } from '../database/lane.js';
import { INT64_MIN } from '../int64.js';
import { cursorAfter } from './cursors.js';
import type { List, PageQuery } from './list.js';
import type { PageReader } from './page-reader.js';

export interface Page {
  json: string;
  next?: string;
}

const filterValue = (query: PageQuery, { property }: EntityColumn) =>
  query[property as keyof PageQuery];

const nameOf = (filters: EntityColumn[]) => filters.map(({ property }) => property).join();

/** Reads the pages of a list. Requests that wait and have the same filters share a statement, and equal ones a page. */
export class Pages {
  /** By the filters of their queries. */
  private readonly lanes: ReadonlyMap<string, Lane<PageQuery, Page>>;

  constructor(
    private readonly list: List,
    private readonly reader: PageReader,
  ) {
    this.lanes = new Map(list.filterSets.map((one) => [nameOf(one), this.laneFor(one)]));
  }

  ask(query: PageQuery, deadline: number): Promise<Page> {
    const filters = this.list.filters.filter((filter) => filterValue(query, filter) !== undefined);
    return this.lanes.get(nameOf(filters))!.ask(query, deadline);
  }

  private laneFor(filters: EntityColumn[]): Lane<PageQuery, Page> {
    const { list, reader } = this;
    const read = reader.of(list, filters);
    const valuesOf = (query: PageQuery) => filters.map((filter) => filterValue(query, filter));
    return new Lane(
      reader.pool.share(list.table),
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
