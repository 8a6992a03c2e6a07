import { administer } from '../../src/database/database.js';
import { ORDER_PAGES } from '../../src/orders/orders.sql.js';
import { itNotOnCitus } from '../support/citus.js';
import { serviceOfTests } from '../support/service.js';

const MIN = '-9223372036854775808';
const MAX = '9223372036854775807';

describe('listOrders 200', () => {
  const service = serviceOfTests();
  beforeEach(async () => {
    await service.query('truncate pets, orders restart identity cascade');
    await service.query(
      `insert into pets (id, name, category_id) values (1, 'Rex', 1), (${MIN}, 'min', 1), (${MAX}, 'max', 1)`,
    );
  });

  const insertAt = (placedAt: string) =>
    service.query(`insert into orders (pet_id, placed_at) values (1, $1)`, [placedAt]);
  const list = async (query = '') =>
    (await service.api.get(`/v1/store/orders${query}`).expect(200)).body;

  it('is a bare array of orders, each with exactly the fields of Order', async () => {
    await service.query(
      `insert into orders (pet_id, status, placed_at) values
         (${MAX}, 'placed', '2026-11-21T09:30:00Z'), (${MIN}, 'delivered', '2026-11-21T09:30:00.123456+05:30')`,
    );
    const { text } = await service.api.get('/v1/store/orders').expect(200);
    expect(text).toBe(
      `[{"id":1,"petId":${MAX},"status":"placed","placedAt":"2026-11-21T09:30:00.000000Z"},` +
        `{"id":2,"petId":${MIN},"status":"delivered","placedAt":"2026-11-21T04:00:00.123456Z"}]`,
    );
  });

  it.each(['placed', 'approved', 'delivered'])(
    'has the status %s, once it is set',
    async (status) => {
      await service.query(`insert into orders (pet_id) values (1)`);
      expect(await list()).toMatchObject([{ id: 1, status: 'placed' }]);
      await service.query(`update orders set status = $1`, [status]);
      expect(await list()).toMatchObject([{ id: 1, status }]);
    },
  );

  it.each([
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000000Z'],
    ['1969-12-31T23:59:59.999999Z', '1969-12-31T23:59:59.999999Z'],
    ['2026-11-21T00:00:00.1-12:00', '2026-11-21T12:00:00.100000Z'],
    ['2028-02-29T00:00:00.000001Z', '2028-02-29T00:00:00.000001Z'],
    ['9999-12-31T23:59:59.999999Z', '9999-12-31T23:59:59.999999Z'],
  ])('has %s as %s, in UTC to the microsecond', async (placedAt, expected) => {
    await insertAt(placedAt);
    expect(await list()).toMatchObject([{ placedAt: expected }]);
  });

  itNotOnCitus(
    'has the same moment whatever time zone and date style the session has',
    async () => {
      await insertAt('2026-07-01T12:00:00Z');
      const items = await administer(service.databaseUrl, async (dataSource) => {
        await dataSource.query(`set timezone to 'Asia/Kolkata'`);
        await dataSource.query(`set datestyle to 'German'`);
        const [row] = await dataSource.query(ORDER_PAGES.text, [['one'], [null], [0], [20]]);
        return row.items;
      });
      expect(JSON.parse(items)).toMatchObject({ placedAt: '2026-07-01T12:00:00.000000Z' });
    },
  );

  it.each(['status=delivered', 'status=lost', 'status[]=x', 'petId=2'])(
    'ignores the unknown parameter %s',
    async (query) => {
      await service.query(`insert into orders (pet_id) values (1)`);
      expect(await list(`?${query}`)).toHaveLength(1);
    },
  );
});
