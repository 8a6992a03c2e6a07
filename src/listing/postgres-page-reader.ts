import { Injectable } from '@nestjs/common';
import type { EntityColumn } from '../database/columns.js';
import { ServingPool } from '../database/pool.js';
import { runForEach, Statement } from '../database/statement.js';
import { Standbys } from '../standbys/standbys.js';
import type { List } from './list.js';
import { keyOf, PageReader, rangeFrom, type ReadPages } from './page-reader.js';

/** With one statement for all pages, on a standby if there is one. */
@Injectable()
export class PostgresPageReader extends PageReader {
  constructor(
    pool: ServingPool,
    private readonly standbys: Standbys,
  ) {
    super(pool);
  }

  override of(list: List, filters: readonly EntityColumn[]): ReadPages {
    const statement = pagesStatement(list, filters);
    return async (pages, session, requests) => {
      const values = [
        pages.map(({ start }) => start),
        pages.map(({ size }) => size),
        ...filters.map((_filter, i) => pages.map(({ values: own }) => own[i])),
      ];
      const rows = await this.standbys.read(session, (server) =>
        runForEach<[items: string | null]>(server, statement, values, requests),
      );
      return rows.map((row) => row?.[0]?.split('\n') ?? []);
    };
  }
}

/**
 * The statement that reads pages. The parameters are arrays: the id that each page starts at, its size, and a value for
 * each filter. Returns the position of each page, from 1, and its items as lines: JSON escapes line breaks in strings.
 */
export function pagesStatement(list: List, filters: readonly EntityColumn[]): Statement {
  const { table, json, andNotDeleted } = list;
  const names = filters.map(({ name }) => name);
  const types = ['bigint', 'int', ...filters.map(({ type }) => type)];
  const parameters = types.map((type, i) => `$${i + 1}::${type}[]`);
  const values = names.map((name) => `wanted.${name}`);
  return new Statement(
    [table, 'pages', ...names.map((name) => `by-${name}`)].join('-'),
    `
  select wanted.position::int, page.items
    from unnest(${parameters.join(', ')})
         with ordinality as wanted (${['start', 'size', ...names, 'position'].join(', ')}),
 lateral (
          select string_agg(${json}, E'\\n' order by ${keyOf(filters)}) as items
            from (select *
                    from ${table}
                   where ${rangeFrom('wanted.start', filters, values)}${andNotDeleted}
                   order by ${keyOf(filters)}
                   limit wanted.size) as ${table}
         ) as page`,
  );
}
