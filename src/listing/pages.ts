import { Batcher } from '../database/batcher.js';
import type { EntityColumn } from '../database/columns.js';
import { INT64_MIN } from '../int64.js';
import { Cursors } from './cursors.js';
import { filterValue, type List, type PageQuery } from './list.js';
import type { PageReader, WantedPage } from './page-reader.js';

export interface Page {
  json: string;
  next?: string;
}

/** Reads the pages of a list. Requests that wait and have the same filters share a statement, and equal ones a page. */
export class Pages {
  /** By the filters of their queries. */
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
    const name = filters.map(({ property }) => property).join();
    const batcher = this.batchers.get(name) ?? this.batcherFor(filters);
    this.batchers.set(name, batcher);
    return batcher.ask(query);
  }

  private batcherFor(filters: EntityColumn[]): Batcher<PageQuery, Page> {
    const read = this.reader.of(this.list, filters);
    return new Batcher(async (queries) => {
      const wanted: WantedPage[] = [];
      const places = new Map<string, number>();
      const placeOf = queries.map((query) => {
        const { limit, cursor } = query;
        const values = filters.map((filter) => filterValue(query, filter));
        const key = `${limit} ${cursor} ${values.join(' ')}`;
        const place = places.get(key) ?? wanted.length;
        if (place === wanted.length) {
          places.set(key, place);
          const start = cursor === undefined ? INT64_MIN : cursor + 1n;
          wanted.push({ start, size: limit + 1, values });
        }
        return place;
      });
      const items = await read(wanted, queries.length);
      const pages = items.map((each, i) => this.pageFrom(each, wanted[i]!.size - 1));
      return placeOf.map((place) => pages[place]!);
    });
  }

  private pageFrom(items: string[], limit: number): Page {
    const json = `[${items.slice(0, limit).join(',')}]`;
    if (items.length <= limit) {
      return { json };
    }
    const [, id] = /^\{"id":(-?[0-9]+)/.exec(items[limit - 1]!)!;
    return { json, next: this.cursors.after(BigInt(id!)) };
  }
}
