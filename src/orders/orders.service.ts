import { Injectable } from '@nestjs/common';
import { columnsOf, jsonOf } from '../database/columns.js';
import { SessionShare } from '../database/session-share.js';
import { type Page, Pages, PageStatement } from '../listing/pages.js';
import { Standbys } from '../standbys/standbys.js';
import type { ListOrdersQuery } from './list-orders-query.dto.js';
import { Order } from './order.entity.js';

export const ORDER_PAGES = new PageStatement('order-pages', 'orders', jsonOf(columnsOf(Order)));

@Injectable()
export class OrdersService {
  private readonly pages: Pages;

  constructor(sessions: SessionShare, standbys: Standbys) {
    this.pages = new Pages(ORDER_PAGES, sessions, standbys);
  }

  list(query: ListOrdersQuery): Promise<Page> {
    return this.pages.ask(query);
  }
}
