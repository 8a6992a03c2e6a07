import { Injectable } from '@nestjs/common';
import type { EntityColumn } from '../database/columns.js';
import { SessionShare } from '../database/session-share.js';
import { allEnded, query } from '../database/statement.js';
import { keyOf, PageReader, rangeFrom, type ReadPages, type WantedPage } from './page-reader.js';
import type { List } from './list.js';

/** With a statement for each page: Citus does not support `lateral`. */
@Injectable()
export class CitusPageReader extends PageReader {
  constructor(private readonly sessions: SessionShare) {
    super();
  }

  override of(list: List, filters: readonly EntityColumn[]): ReadPages {
    const text = pageOnCitus(list, filters);
    const readOne = async ({ start, size, values }: WantedPage) =>
      (await query<[string]>(this.sessions, text, [start, size, ...values])).flat();
    return (pages) => allEnded(pages.map(readOne));
  }
}

/** The statement that reads one page, from its start, its size, and a value for each filter. */
export function pageOnCitus({ table, json }: List, filters: readonly EntityColumn[]): string {
  const values = filters.map(({ type }, i) => `$${i + 3}::${type}`);
  const range = rangeFrom('$1::bigint', filters, values);
  return `select ${json} from ${table} where ${range} order by ${keyOf(filters)} limit $2::int`;
}
