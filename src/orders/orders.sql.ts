import { columnsOf, jsonOf } from '../database/columns.js';
import { BY_ID, PageStatement } from '../listing/pages.js';
import { Order } from './order.entity.js';

/** The pages of orders, each as JSON text. */
export const ORDER_PAGES = new PageStatement('order-pages', {
  table: 'orders',
  json: jsonOf(columnsOf(Order)),
  ...BY_ID,
});
