import { administer } from '../../src/database/connect.js';
import { pagesStatement } from '../../src/listing/postgres-page-reader.js';
import { ORDERS } from '../../src/orders/orders.service.js';
import { itNotOnCitus } from '../support/citus.js';
import { serviceOfTests } from '../support/service.js';

const MIN = '-9223372036854775808';
const MAX = '9223372036854775807';

describe('listOrders', () => {
  const service = serviceOfTests();
  beforeEach(async () => {
    await service.query('truncate pets, orders restart identity cascade');
    await service.query(
      `insert into pets (id, name, category_id) values (1000, 'Rex', 1), (${MIN}, 'min', 1), (${MAX}, 'max', 1)`,
    );
  });

  it('is a bare array of orders, each with exactly the fields of Order', async () => {
    await service.query(
      `insert into orders (pet_id, status, placed_at) values
         (${MAX}, 'approved', '2026-11-21T09:30:00Z'), (${MIN}, 'delivered', '2026-11-21T09:30:00.123456+05:30')`,
    );
    const { text } = await service.api.get('/v1/store/orders').expect(200);
    expect(text).toBe(
      `[{"id":1,"petId":${MAX},"status":"approved","placedAt":"2026-11-21T09:30:00.000000Z"},` +
        `{"id":2,"petId":${MIN},"status":"delivered","placedAt":"2026-11-21T04:00:00.123456Z"}]`,
    );
  });

  itNotOnCitus(
    'has times in UTC to the microsecond, whatever time zone and date style the session has',
    async () => {
      await service.query(
        `insert into orders (pet_id, placed_at) values
           (1000, '0001-01-01Z'), (1000, '2026-11-21T00:00:00.1-12:00'), (1000, '9999-12-31T23:59:59.999999Z')`,
      );
      const items = await administer(service.databaseUrl, async (dataSource) => {
        await dataSource.query(`set timezone to 'Asia/Kolkata'`);
        await dataSource.query(`set datestyle to 'German'`);
        const [row] = await dataSource.query(pagesStatement(ORDERS, []).text, [[0], [20]]);
        return row.items.split('\n').map((item: string) => JSON.parse(item).placedAt);
      });
      expect(items).toEqual([
        '0001-01-01T00:00:00.000000Z',
        '2026-11-21T12:00:00.100000Z',
        '9999-12-31T23:59:59.999999Z',
      ]);
    },
  );
});
