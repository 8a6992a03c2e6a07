import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { forEngine } from '../database/engine.js';
import { SessionShare } from '../database/session-share.js';
import { CitusPageReader } from '../listing/citus-page-reader.js';
import { PageReader } from '../listing/page-reader.js';
import { PostgresPageReader } from '../listing/postgres-page-reader.js';
import { Order } from './order.entity.js';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([Order])],
  controllers: [OrdersController],
  providers: [
    SessionShare,
    forEngine(PageReader, { postgresql: PostgresPageReader, citus: CitusPageReader }),
    OrdersService,
  ],
})
export class OrdersModule {}
