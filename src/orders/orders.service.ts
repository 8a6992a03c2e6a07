import { Injectable } from '@nestjs/common';
import { type Page, type PageRequest, Pages } from '../listing/pages.js';
import { Standbys } from '../standbys/standbys.js';
import { ORDER_CURSORS } from './list-orders-query.dto.js';
import { ORDER_PAGES } from './orders.sql.js';

/** The orders, which the store's own systems write. */
@Injectable()
export class OrdersService {
  private readonly pages: Pages;

  constructor(standbys: Standbys) {
    this.pages = new Pages(ORDER_PAGES, ORDER_CURSORS, standbys);
  }

  /** listOrders: the orders that follow `after`, by id. */
  list(request: PageRequest): Promise<Page> {
    return this.pages.ask(request);
  }
}
