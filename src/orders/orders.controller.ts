import { Controller, Get, Inject, Query, Res } from '@nestjs/common';
import type { Response } from 'express';
import { Environment } from '../config/environment.js';
import type { JsonText } from '../http/json-text.js';
import { pageResponse } from '../listing/page-response.js';
import { ListOrdersQuery } from './list-orders-query.dto.js';
import { OrdersService } from './orders.service.js';

/** The store's orders (interface, part 4.4). */
@Controller({ path: 'store/orders', version: '1' })
export class OrdersController {
  private readonly address: string;

  constructor(
    private readonly orders: OrdersService,
    @Inject(Environment) { baseUrl }: Environment,
  ) {
    this.address = `${baseUrl}/store/orders`;
  }

  /** Experimental: the interface gives its name alone, so it may change without notice. */
  @Get()
  async listOrders(
    @Query() { limit, cursor }: ListOrdersQuery,
    @Res({ passthrough: true }) response: Response,
  ): Promise<JsonText> {
    const page = await this.orders.list({ limit, after: cursor });
    return pageResponse(response, page, `${this.address}?limit=${limit}`);
  }
}
