import { Injectable } from '@nestjs/common';
import { SessionShare } from '../database/session-share.js';
import { type Page, Pages } from '../listing/pages.js';
import { Standbys } from '../standbys/standbys.js';
import type { ListOrdersQuery } from './list-orders-query.dto.js';
import { ORDER_PAGES } from './orders.sql.js';

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
