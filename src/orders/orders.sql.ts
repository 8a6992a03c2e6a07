import { columnsOf, jsonOf } from '../database/columns.js';
import { PageStatement } from '../listing/pages.js';
import { Order } from './order.entity.js';

export const ORDER_PAGES = new PageStatement('order-pages', 'orders', jsonOf(columnsOf(Order)));
