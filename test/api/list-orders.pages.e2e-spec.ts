import { nextPage, walk } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

const COUNT = 300;
const MIN = -(2n ** 63n);
const MAX = 2n ** 63n - 1n;

/** The orders' ids: not dense, on both sides of what a double holds, and next to each other at the edges of int64. */
const IDS = [
  MIN,
  MIN + 1n,
  ...Array.from({ length: COUNT - 4 }, (_, i) => BigInt(i - COUNT / 2) * 18_000_000_000_000_001n),
  MAX - 1n,
  MAX,
];

const idsOf = (text: string) => [...text.matchAll(/"id":(-?\d+)/g)].map(([, id]) => BigInt(id!));

async function startWithOrders(variables: Record<string, string> = {}): Promise<TestService> {
  const service = await startService(variables);
  await service.query(`insert into pets (id, name, category_id) values (1, 'Rex', 1)`);
  await service.query(
    `insert into orders (id, pet_id) overriding system value
     select id, 1 from unnest($1::bigint[]) as id order by random()`,
    [IDS],
  );
  return service;
}

describe('listOrders pages', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startWithOrders();
  });
  afterAll(() => service.stop());

  it.each([undefined, 1, 7, 100])(
    'reach each order once, in order, through Link alone: limit=%s',
    async (limit) => {
      const query = limit === undefined ? '' : `?limit=${limit}`;
      const pages = await walk(service, `/v1/store/orders${query}`);
      expect(pages.flatMap(({ text }) => idsOf(text))).toEqual(IDS);
      expect(pages).toHaveLength(Math.ceil(COUNT / (limit ?? 20)));
      expect(pages.at(-1)!.headers).not.toHaveProperty('link');
    },
    60_000,
  );

  it.each([
    ['', '20'],
    ['?limit=7', '7'],
    ['?limit=5&status=placed&access_token=x', '5'],
  ])('keep limit, and nothing else, in the Link of %j', async (query, limit) => {
    const next = nextPage(await service.api.get(`/v1/store/orders${query}`))!;
    expect(next).toMatch(
      new RegExp(`^/v1/store/orders\\?limit=${limit}&cursor=[A-Za-z0-9_-]{16}$`),
    );
  });

  it('are each their own, when pages of orders and of pets are asked for at once', async () => {
    await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        const limit = i + 1;
        const [orders, pets] = await Promise.all([
          service.api.get(`/v1/store/orders?limit=${limit}`).expect(200),
          service.api.get(`/v1/pets?limit=${limit}`).expect(200),
        ]);
        expect(idsOf(orders.text)).toEqual(IDS.slice(0, limit));
        expect(idsOf(pets.text)).toEqual([1n]);
      }),
    );
  });
});

describe('listOrders pages with PUBLIC_BASE_URL', () => {
  const base = 'http://example.org:8080/store/v1';
  let service: TestService;
  beforeAll(async () => {
    service = await startWithOrders({ PUBLIC_BASE_URL: base });
  });
  afterAll(() => service.stop());

  it('have a Link that starts with it, and that works', async () => {
    const next = nextPage(await service.api.get('/v1/store/orders?limit=7'))!;
    expect(next.startsWith(`${base}/store/orders?limit=7&cursor=`)).toBe(true);
    const { text } = await service.api.get(next.replace(base, '/v1')).expect(200);
    expect(idsOf(text)).toEqual(IDS.slice(7, 14));
  });
});
