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

  const insertNumbered = (count: number) =>
    service.query(`insert into orders (pet_id) select 1 from generate_series(1, $1)`, [count]);
  const insertAt = (placedAt: string) =>
    service.query(`insert into orders (pet_id, placed_at) values (1, $1)`, [placedAt]);
  const list = async (query = '') =>
    (await service.api.get(`/v1/store/orders${query}`).expect(200)).body;
  const ids = async (query: string) => (await list(query)).map(({ id }: { id: number }) => id);
  const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

  it('answers an empty array without a Link where there are no orders', async () => {
    const answer = await service.api.get('/v1/store/orders').expect(200);
    expect(answer.text).toBe('[]');
    expect(answer.headers).not.toHaveProperty('link');
  });

  it('answers a bare array of orders, each with exactly the fields of Order', async () => {
    await service.query(
      `insert into orders (pet_id, status, placed_at) values
         (1, 'placed', '2026-11-21T09:30:00Z'), (1, 'delivered', '2026-11-21T09:30:00.123456+05:30')`,
    );
    const answer = await service.api.get('/v1/store/orders').expect(200);
    expect(answer.text).toBe(
      '[{"id":1,"petId":1,"status":"placed","placedAt":"2026-11-21T09:30:00.000000Z"},' +
        '{"id":2,"petId":1,"status":"delivered","placedAt":"2026-11-21T04:00:00.123456Z"}]',
    );
  });

  it.each(['placed', 'approved', 'delivered'])('answers the status %s', async (status) => {
    await service.query(`insert into orders (pet_id, status) values (1, $1)`, [status]);
    expect(await list()).toMatchObject([{ status }]);
  });

  it('answers a status that the store changed', async () => {
    await insertNumbered(1);
    await service.query(`update orders set status = 'approved'`);
    expect(await list()).toMatchObject([{ id: 1, status: 'approved' }]);
  });

  it('answers 20 orders where no limit is given', async () => {
    await insertNumbered(21);
    expect(await ids('')).toEqual(upTo(20));
  });

  it.each([1, 2, 19, 20, 21, 99, 100])('answers at most limit=%s orders', async (limit) => {
    await insertNumbered(101);
    expect(await ids(`?limit=${limit}`)).toEqual(upTo(limit));
  });

  it('orders by ascending id over the whole range of int64, every digit of id and petId exact', async () => {
    const inOrder = [MIN, '-9007199254740993', '-1', '0', '1', '9007199254740993', MAX];
    for (const [i, id] of inOrder.toReversed().entries()) {
      await service.query(
        `insert into orders (id, pet_id, placed_at) overriding system value
         values ($1, $2, '2026-11-21T09:30:00Z')`,
        [id, i % 2 === 0 ? MAX : MIN],
      );
    }
    const answer = await service.api.get('/v1/store/orders').expect(200);
    const orders = inOrder.map(
      (id, i) =>
        `{"id":${id},"petId":${i % 2 === 0 ? MAX : MIN},"status":"placed","placedAt":"2026-11-21T09:30:00.000000Z"}`,
    );
    expect(answer.text).toBe(`[${orders.join(',')}]`);
    expect(answer.headers).not.toHaveProperty('link');
  });

  it.each([
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000000Z'],
    ['1969-12-31T23:59:59.999999Z', '1969-12-31T23:59:59.999999Z'],
    ['2026-11-21T00:00:00.1-12:00', '2026-11-21T12:00:00.100000Z'],
    ['2028-02-29T00:00:00.000001Z', '2028-02-29T00:00:00.000001Z'],
    ['9999-12-31T23:59:59.999999Z', '9999-12-31T23:59:59.999999Z'],
  ])('answers %s as %s, in UTC to the microsecond', async (placedAt, expected) => {
    await insertAt(placedAt);
    expect(await list()).toMatchObject([{ placedAt: expected }]);
  });

  itNotOnCitus(
    'answers the same moment whatever time zone and date style the session has',
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

  it.each(['status=delivered', 'status=lost', 'status[]=x', 'petId=2', 'page=2', 'Limit=1'])(
    'ignores the unknown parameter %s',
    async (query) => {
      await insertNumbered(3);
      expect(await ids(`?${query}`)).toEqual([1, 2, 3]);
    },
  );
});
