import { nextPage, walk } from '../support/answers.js';
import { idsOf, LISTS } from '../support/lists.js';
import { serviceOfTests } from '../support/service.js';

const COUNT = 300;
const [MIN, MAX] = [-(2n ** 63n), 2n ** 63n - 1n];
const BASE = 'http://example.org:8080/store/v1';

/** Not dense, on both sides of what a double holds, and next to each other at the edges of int64. */
const IDS = [
  MIN,
  MIN + 1n,
  ...Array.from(
    { length: COUNT - 4 },
    (_, i) => BigInt(i - COUNT / 2) * 18_000_000_000_000_001n + 1n,
  ),
  MAX - 1n,
  MAX,
];

describe.each(LISTS)('the pages of $operation', ({ path, insert }) => {
  const service = serviceOfTests();
  beforeAll(() => insert(service, IDS));

  it.each([undefined, 1, 7, 99, 100])(
    'reach each item once, in order, through Link alone: limit=%s',
    async (limit) => {
      const pages = await walk(service, limit === undefined ? path : `${path}?limit=${limit}`);
      const sizes = pages.map(({ text }) => idsOf(text).length);
      expect(pages.flatMap(({ text }) => idsOf(text))).toEqual(IDS);
      expect(pages).toHaveLength(Math.ceil(COUNT / (limit ?? 20)));
      expect(new Set(sizes.slice(0, -1))).toEqual(new Set([limit ?? 20]));
      expect(pages.at(-1)!.headers).not.toHaveProperty('link');
    },
    60_000,
  );

  it.each([
    ['', 'limit=20'],
    ['?limit=7', 'limit=7'],
    ['?limit=5&other=1&access_token=x', 'limit=5'],
  ])('keep limit, and nothing unknown, in the Link of %j', async (query, kept) => {
    const next = nextPage(await service.api.get(path + query))!;
    expect(next.split('&cursor=')).toEqual([
      `${path}?${kept}`,
      expect.stringMatching(/^[\w-]{16}$/),
    ]);
  });
});

describe('the pages of listPets and listOrders', () => {
  const service = serviceOfTests({ PUBLIC_BASE_URL: BASE });
  beforeAll(() => Promise.all(LISTS.map(({ insert }) => insert(service, IDS))));

  it.each(LISTS)('have a Link that starts with PUBLIC_BASE_URL: $operation', async ({ path }) => {
    const next = nextPage(await service.api.get(`${path}?limit=7`))!;
    expect(next).toMatch(`${BASE}${path.slice(3)}?limit=7&cursor=`);
  });

  it('are each their own if they are asked for at once', async () => {
    const asked = Array.from({ length: 100 }, (_, i) =>
      LISTS.map(({ path }) => ({ path, limit: i + 1 })),
    );
    await Promise.all(
      asked.flat().map(async ({ path, limit }) => {
        const { text } = await service.api.get(`${path}?limit=${limit}`).expect(200);
        expect(idsOf(text)).toEqual(IDS.slice(0, limit));
        expect(text.includes('placedAt')).toBe(path === '/v1/store/orders');
      }),
    );
  });
});
