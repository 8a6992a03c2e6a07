import { Statement } from '../database/statement.js';

/** What a list reads. Every text is SQL. */
export interface PageSource {
  table: string;
  /** An item as JSON text that begins with its `id`. */
  json: string;
  /** The condition for the ids from `start`, and for the filter if the list has one. One index serves it. */
  range: (start: string, filter: string) => string;
  /** That index's order. */
  order: string;
  isFiltered: boolean;
}

/** Of a list that the primary key serves. */
export const BY_ID = { range: (start: string) => `id >= ${start}`, order: 'id', isFiltered: false };

/**
 * The statement for pages, one a row of what is wanted: `$1` its key, `$2` its filter, `$3` the id it starts at, `$4`
 * its size. A page is its items as JSON, a line each (a line break inside JSON text is always escaped), with one more
 * than its size if more follow.
 *
 * A page may have ids above others that are not committed yet. To end before those it would need to leave out what was
 * acknowledged; and a snapshot does not tell: a row that is older than all open transactions may have a higher id than
 * one of theirs, as an id and a transaction's id are handed out one after the other.
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
