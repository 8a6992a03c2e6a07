import { Cursor, DEFAULT_LIMIT, Limit } from '../listing/list-query.js';
import { Remembered } from '../validation/decorators.js';

@Remembered('cursor')
export class ListOrdersQuery {
  @Limit()
  limit = DEFAULT_LIMIT;

  @Cursor('orders')
  cursor?: bigint;
}
