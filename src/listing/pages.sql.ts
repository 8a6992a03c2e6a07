import { Statement } from '../database/statement.js';

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
