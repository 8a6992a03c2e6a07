import type { Pool, PoolClient } from 'pg';
import { Batcher } from '../database/batcher.js';
import { run, Statement } from '../database/statement.js';
import { INT64_MAX, INT64_MIN } from '../int64.js';
import type { Standbys } from '../standbys/standbys.js';
import { Cursors } from './cursors.js';

/**
 * The condition for the rows of a list from the id `start` on, as SQL.
 *
 * @param filter the column that must have the value `wanted`. The condition is a range of it and the id, for which only
 *   their index can be used. With `filter = …`, the planner might read the primary key and filter the rows, which is slow
 *   for a rare value.
 */
export const rangeFrom = (start: string, filter?: string, wanted?: string) =>
  filter === undefined
    ? `id >= ${start}`
    : `(${filter}, id) >= (${wanted}, ${start}) and (${filter}, id) <= (${wanted}, ${INT64_MAX})`;

/**
 * The statement that reads pages. The parameters are arrays with an element for each page: `$1` its key, `$2` the value
 * of its filter, `$3` the id that it starts at, `$4` its size.
 *
 * Returns a row for each page: its key, and its items as lines of JSON (JSON escapes line breaks in strings). If more
 * items follow the page, it has one more item than its size.
 *
 * A page may contain an id that is higher than one that is not committed yet. It cannot end before the uncommitted id,
 * because it would then lack animals that were acknowledged. A snapshot does not show where to end either: PostgreSQL
 * assigns the id of a row and that of its transaction one after the other, so their orders may differ.
 */
export class PageStatement extends Statement {
  /**
   * @param table also the name of the list in its cursors.
   * @param json an item as JSON text that begins with its `id`, in SQL.
   * @param filter the column that the list is filtered by, if any. It has an index with `id`.
   */
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

export interface PageRequest {
  /** 1 to 100. */
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
    standbys: Standbys,
  ) {
    this.cursors = new Cursors(statement.table);
    this.batcher = new Batcher(statement.name.replaceAll('-', '_'), (requests) =>
      standbys.read((sessions) => this.find(sessions, requests)),
    );
  }

  /** Throws what `Batcher.ask` throws. */
  ask(request: PageRequest): Promise<Page> {
    return this.batcher.ask(request);
  }

  private async find(sessions: Pool | PoolClient, requests: PageRequest[]): Promise<Page[]> {
    const wanted = new Map(requests.map((request) => [keyOf(request), request]));
    const distinct = [...wanted.values()];
    const rows = await run<[key: string, items: string | null]>(sessions, this.statement, [
      [...wanted.keys()],
      distinct.map(({ filter }) => filter),
      distinct.map(({ cursor }) => (cursor === undefined ? INT64_MIN : cursor + 1n)),
      distinct.map(({ limit }) => limit),
    ]);
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
