import { Injectable } from '@nestjs/common';
import type { EntityColumn } from '../database/columns.js';
import { DATABASE_LIMITS } from '../database/limits.js';
import { query } from '../database/statement.js';
import { keyOf, PageReader, rangeFrom, type ReadPages } from './page-reader.js';
import type { List } from './list.js';

/** With a statement for each page: Citus does not support `lateral`. Few in a batch, so that several sessions read. */
@Injectable()
export class CitusPageReader extends PageReader {
  override readonly limits = {
    rowsPerStatement: DATABASE_LIMITS.rowsPerStatementOnCitus,
    patience: 0,
  };

  override of(list: List, filters: readonly EntityColumn[]): ReadPages {
    const text = pageOnCitus(list, filters);
    return async (pages, session) => {
      const read: string[][] = [];
      for (const { start, size, values } of pages) {
        read.push((await query<[string]>(session, text, [start, size, ...values])).flat());
      }
      return read;
    };
  }
}

/** The statement that reads one page, from its start, its size, and a value for each filter. */
export function pageOnCitus(list: List, filters: readonly EntityColumn[]): string {
  const { table, json, andNotDeleted } = list;
  const values = filters.map(({ type }, i) => `$${i + 3}::${type}`);
  const range = rangeFrom('$1::bigint', filters, values) + andNotDeleted;
  return `select ${json} from ${table} where ${range} order by ${keyOf(filters)} limit $2::int`;
}
