import type { PoolClient } from 'pg';
import { Batcher } from '../database/batcher.js';
import { run, type SessionSource, Statement } from '../database/statement.js';
import { INT64_MAX, INT64_MIN } from '../int64.js';
import type { Standbys } from '../standbys/standbys.js';
import { Cursors } from './cursors.js';

/**
 * The condition for the rows of a list from the id `start` on, as SQL: with a filter, a range of the filter and the id,
 * for which only their index can be used. For `filter = …`, the planner might read the primary key and filter the rows.
 */
export const rangeFrom = (start: string, filter?: string, wanted?: string) =>
  filter === undefined
    ? `id >= ${start}`
    : `(${filter}, id) >= (${wanted}, ${start}) and (${filter}, id) <= (${wanted}, ${INT64_MAX})`;

/**
 * The statement that reads pages. The parameters are arrays: the key of each page, the value of its filter, the id that
 * it starts at, its size. Returns the key of each, and its items as lines of JSON (JSON escapes line breaks in strings);
 * one more than its size if more items follow.
 *
 * A page may contain an id that is higher than one that is not committed yet: without it, acknowledged rows would lack.
 */
export class PageStatement extends Statement {
  /** The `table` is also what the DTO gives to `Cursor`. The JSON begins with `id`. The filter is a column with an index. */
  constructor(
    name: string,
    readonly table: string,
    readonly json: string,
    readonly filter?: string,
    readonly order = filter === undefined ? 'id' : `${filter}, id`,
  ) {
    super(
      name,
      `
  select wanted.key, page.items
    from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
 lateral (
          select string_agg(${json}, E'\\n' order by ${order}) as items
            from (select *
                    from ${table}
                   where ${rangeFrom('wanted.start', filter, 'wanted.filter')}
                   order by ${order}
                   limit wanted.size + 1) as ${table}
         ) as page`,
    );
  }
}

interface PageRequest {
  limit: number;
  /** The id after which the page begins; `undefined` for the first page. */
  cursor?: bigint;
  /** The value that the list is filtered by, if its statement has a filter. */
  filter?: string;
}

export interface Page {
  /** A JSON array of the items, in the order of their ids. */
  json: string;
  /** The cursor of the next page; `undefined` on the last page. */
  next?: string;
}

/** Reads the pages of a list. All requests that wait share a statement, and requests for the same page share it too. */
export class Pages {
  private readonly batcher: Batcher<PageRequest, Page>;
  private readonly cursors: Cursors;

  constructor(
    private readonly statement: PageStatement,
    primary: SessionSource,
    standbys: Standbys,
  ) {
    this.cursors = new Cursors(statement.table);
    this.batcher = new Batcher((requests) =>
      standbys.read(primary, (sessions) => this.find(sessions, requests)),
    );
  }

  readonly ask = (request: PageRequest): Promise<Page> => this.batcher.ask(request);

  private async find(
    sessions: SessionSource | PoolClient,
    requests: PageRequest[],
  ): Promise<Page[]> {
    const wanted = new Map(requests.map((request) => [keyOf(request), request]));
    const distinct = [...wanted.values()];
    type Row = [key: string, items: string | null];
    const values = [
      [...wanted.keys()],
      distinct.map(({ filter }) => filter),
      distinct.map(({ cursor }) => (cursor === undefined ? INT64_MIN : cursor + 1n)),
      distinct.map(({ limit }) => limit),
    ];
    const rows = await run<Row>(sessions, this.statement, values, requests.length);
    const pages = new Map(
      rows.map(([key, items]) => [key, this.pageFrom(items?.split('\n'), wanted.get(key)!.limit)]),
    );
    return requests.map((request) => pages.get(keyOf(request))!);
  }

  private pageFrom(items: string[] = [], limit: number): Page {
    const onPage = items.slice(0, limit);
    const json = `[${onPage.join(',')}]`;
    if (items.length <= limit) {
      return { json };
    }
    const [, id] = /^\{"id":(-?[0-9]+)/.exec(onPage.at(-1)!)!;
    return { json, next: this.cursors.after(BigInt(id!)) };
  }
}

const keyOf = ({ limit, filter, cursor }: PageRequest) => `${limit}:${filter}:${cursor}`;
