import { Controller, Get, Query, Req, Res } from '@nestjs/common';
import type { Response } from 'express';
import { Environment } from '../config/environment.js';
import type { JsonText, Request } from '../http/express-classes.js';
import { pageResponse } from '../listing/list-query.js';
import { ListOrdersQuery } from './list-orders-query.dto.js';
import { OrdersService } from './orders.service.js';

/** The store's orders (interface, part 4.4): experimental, so this may change without notice. */
@Controller({ path: 'store/orders', version: '1' })
export class OrdersController {
  constructor(
    private readonly orders: OrdersService,
    private readonly environment: Environment,
  ) {}

  @Get()
  async listOrders(
    @Query() query: ListOrdersQuery,
    @Req() { deadline }: Request,
    @Res({ passthrough: true }) response: Response,
  ): Promise<JsonText> {
    const address = `${this.environment.baseUrl}/store/orders`;
    const page = await this.orders.list(query, deadline);
    return pageResponse(response, page, address, query);
  }
}
