import { Cursors } from '../listing/cursors.js';
import { Cursor, DEFAULT_LIMIT, Limit, type ListQuery } from '../listing/list-query.js';

export const ORDER_CURSORS = new Cursors('orders');

/** The query of listOrders. */
export class ListOrdersQuery implements ListQuery {
  @Limit()
  limit = DEFAULT_LIMIT;

  @Cursor(ORDER_CURSORS)
  cursor?: bigint;
}
