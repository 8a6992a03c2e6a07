import { Statement } from '../database/statement.js';

/** What a list reads. Every text is SQL. */
interface PageSource {
  table: string;
  /** An item as JSON text that begins with its `id`. */
  json: string;
  /** The condition that one index serves, in terms of `wanted.start` and `wanted.filter`; by default on the id. */
  range?: string;
  /** That index's order. */
  order?: string;
}

/**
 * The statement for pages, one a row of what is wanted: `$1` its key, `$2` its filter, `$3` the id it starts at, `$4`
 * its size. A page is its items as JSON, a line each (a line break inside JSON text is always escaped), with one more
 * than its size if more follow.
 *
 * A page may have ids above others that are not committed yet. To end before those it would need to leave out what was
 * acknowledged; and a snapshot does not tell: a row that is older than all open transactions may have a higher id than
 * one of theirs, as an id and a transaction's id are handed out one after the other.
 */
export const pageStatement = (
  name: string,
  { table, json, range = 'id >= wanted.start', order = 'id' }: PageSource,
): Statement =>
  new Statement(
    name,
    `
  select wanted.key, page.items
    from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, filter, start, size),
 lateral (
          select string_agg(${json}, E'\\n' order by ${order}) as items
            from (select *
                    from ${table}
                   where ${range}
                   order by ${order}
                   limit wanted.size + 1) as ${table}
         ) as page`,
  );
