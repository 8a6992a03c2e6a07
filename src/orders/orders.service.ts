import { Injectable } from '@nestjs/common';
import { Batcher } from '../database/batcher.js';
import { Standbys } from '../standbys/standbys.js';
import { findPages, type Page, type PageRequest } from '../listing/pages.js';
import { ORDER_CURSORS } from './list-orders-query.dto.js';
import { ORDER_PAGES } from './orders.sql.js';

/** The orders, which the store's own systems write. */
@Injectable()
export class OrdersService {
  private readonly pages: Batcher<PageRequest, Page>;

  constructor(standbys: Standbys) {
    this.pages = new Batcher('order_pages', (requests) =>
      standbys.read((sessions) => findPages(sessions, ORDER_PAGES, ORDER_CURSORS, requests)),
    );
  }

  /** listOrders: the orders that follow `after`, by id. */
  list(request: PageRequest): Promise<Page> {
    return this.pages.ask(request);
  }
}
