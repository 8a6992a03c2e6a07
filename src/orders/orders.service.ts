import { Injectable } from '@nestjs/common';
import { listOf } from '../listing/list.js';
import { PageReader } from '../listing/page-reader.js';
import { type Page, Pages } from '../listing/pages.js';
import { ListOrdersQuery } from './list-orders-query.dto.js';
import { Order } from './order.entity.js';

export const ORDERS = listOf(Order, ListOrdersQuery);

@Injectable()
export class OrdersService {
  private readonly pages: Pages;

  constructor(reader: PageReader) {
    this.pages = new Pages(ORDERS, reader);
  }

  list(query: ListOrdersQuery, deadline: number): Promise<Page> {
    return this.pages.ask(query, deadline);
  }
}
