import { Batcher } from '../database/batcher.js';
import type { EntityColumn } from '../database/columns.js';
import { INT64_MIN } from '../int64.js';
import { Cursors } from './cursors.js';
import type { List } from './list.js';
import type { PageReader } from './page-reader.js';

/** A query of a list: its DTO, which also has a property for each filter of the list. */
export interface PageQuery {
  limit: number;
  /** The id after which the page begins; `undefined` for the first page. */
  cursor?: bigint;
}

export interface Page {
  /** A JSON array of the items, in the order of their ids. */
  json: string;
  /** The cursor of the next page; `undefined` on the last page. */
  next?: string;
}

/** @returns `undefined` if the query does not have the filter. */
export const filterValue = (query: PageQuery, { property }: EntityColumn): unknown =>
  (query as unknown as Record<string, unknown>)[property];

/** Reads the pages of a list. Requests that wait and have the same filters share a statement, and equal ones a page. */
export class Pages {
  /** By the names of the filters. */
  private readonly batchers = new Map<string, Batcher<PageQuery, Page>>();
  private readonly cursors: Cursors;

  constructor(
    private readonly list: List,
    private readonly reader: PageReader,
  ) {
    this.cursors = new Cursors(list.table);
  }

  ask(query: PageQuery): Promise<Page> {
    const filters = this.list.filters.filter((filter) => filterValue(query, filter) !== undefined);
    const names = filters.map(({ name }) => name).join();
    let batcher = this.batchers.get(names);
    if (batcher === undefined) {
      batcher = new Batcher((queries) => this.read(filters, queries));
      this.batchers.set(names, batcher);
    }
    return batcher.ask(query);
  }

  private async read(filters: EntityColumn[], queries: PageQuery[]): Promise<Page[]> {
    const valuesOf = (query: PageQuery) => filters.map((filter) => filterValue(query, filter));
    const keyOf = (query: PageQuery) =>
      `${query.limit} ${query.cursor} ${valuesOf(query).join(' ')}`;
    const distinct = [...new Map(queries.map((query) => [keyOf(query), query])).values()];
    const wanted = distinct.map((query) => ({
      start: query.cursor === undefined ? INT64_MIN : query.cursor + 1n,
      size: query.limit + 1,
      values: valuesOf(query),
    }));
    const items = await this.reader.read(this.list, filters, wanted);
    const pages = new Map(
      distinct.map((query, i) => [keyOf(query), this.pageFrom(items[i]!, query.limit)]),
    );
    return queries.map((query) => pages.get(keyOf(query))!);
  }

  private pageFrom(items: string[], limit: number): Page {
    const onPage = items.slice(0, limit);
    const json = `[${onPage.join(',')}]`;
    if (items.length <= limit) {
      return { json };
    }
    const [, id] = /^\{"id":(-?[0-9]+)/.exec(onPage.at(-1)!)!;
    return { json, next: this.cursors.after(BigInt(id!)) };
  }
}
