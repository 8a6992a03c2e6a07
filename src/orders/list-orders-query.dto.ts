import { Cursor, DEFAULT_LIMIT, Limit } from '../listing/list-query.js';

export class ListOrdersQuery {
  @Limit()
  limit = DEFAULT_LIMIT;

  @Cursor('orders')
  cursor?: bigint;
}
