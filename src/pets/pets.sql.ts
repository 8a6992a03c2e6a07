import type { Statement } from '../database/pool.js';
import { INT64_MAX } from '../http/int64.js';

/** A Pet as JSON text (interface, part 2), written by PostgreSQL, which has every int64 exactly. */
export const PET_JSON = `'{"id":' || id || ',"name":' || to_json(name) || ',"categoryId":' || category_id
          || ',"status":"' || status || '"}'`;

/**
 * Pages, one a row of what is wanted: `$1` its key, `$2` its status, `$3` the id it starts at, `$4` its size. A page
 * is its pets as JSON, a line each (a line break inside JSON text is always escaped), with one more than its size
 * where more follow.
 */
const pages = (range: string, order: string) => `
  select wanted.key, page.pets
    from unnest($1::text[], $2::text[], $3::bigint[], $4::int[]) as wanted (key, status, start, size),
 lateral (
          select string_agg(${PET_JSON}, E'\\n' order by ${order}) as pets
            from (select *
                    from pets
                   where ${range}
                   order by ${order}
                   limit wanted.size + 1) as pets
         ) as page`;

export const PAGES: Statement = { name: 'pages', text: pages('id >= wanted.start', 'id') };

/**
 * The condition is a range of (status, id), and no `status = …`: for that, the planner might walk the primary key and
 * filter, which is slow for a rare status. Only the index on (status, id) has this range in this order.
 */
export const PAGES_OF_STATUS: Statement = {
  name: 'pages-of-status',
  text: pages(
    `(status, id) >= (wanted.status, wanted.start) and (status, id) <= (wanted.status, ${INT64_MAX})`,
    'status, id',
  ),
};

/** The pets that have an id of `$1`, in any order. */
export const PETS_BY_ID: Statement = {
  name: 'pets-by-id',
  text: `select id, ${PET_JSON} as json from pets where id = any($1::bigint[])`,
};

/** New pets: `$1` their names, `$2` their categories, `$3` their statuses. Rows come back in any order. */
export const INSERT_PETS: Statement = {
  name: 'insert-pets',
  text: `
  insert into pets (name, category_id, status)
  select * from unnest($1::text[], $2::bigint[], $3::text[])
  returning id, name, category_id, status, ${PET_JSON} as json`,
};
