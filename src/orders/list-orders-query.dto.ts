import { Cursor } from '../listing/cursors.js';
import { DEFAULT_LIMIT, Limit } from '../listing/list-query.js';
import { RememberedWithout } from '../validation/decorators.js';

@RememberedWithout('cursor')
export class ListOrdersQuery {
  @Limit()
  limit: number = DEFAULT_LIMIT;

  @Cursor('orders')
  cursor?: bigint;
}
