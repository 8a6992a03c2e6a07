import { Module } from '@nestjs/common';
import { SessionShare } from '../database/session-share.js';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';

@Module({ controllers: [OrdersController], providers: [SessionShare, OrdersService] })
export class OrdersModule {}
