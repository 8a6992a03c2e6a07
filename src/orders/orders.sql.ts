import { BY_ID, PageStatement } from '../listing/pages.sql.js';

/** In UTC to the microsecond, which is all that PostgreSQL holds (RFC 3339, section 5.6): always 27 characters. */
const PLACED_AT = `to_char(placed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

/** An Order as JSON text. */
const ORDER_JSON = `'{"id":' || id || ',"petId":' || pet_id || ',"status":"' || status
          || '","placedAt":"' || ${PLACED_AT} || '"}'`;

export const ORDER_PAGES = new PageStatement('order-pages', {
  table: 'orders',
  json: ORDER_JSON,
  ...BY_ID,
});
