import { nextPage, walk } from '../support/answers.js';
import { idsOf, LISTS } from '../support/lists.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const COUNT = 300;
const [MIN, MAX] = [-(2n ** 63n), 2n ** 63n - 1n];
const list = (text: string) => text.split(' ');

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

describe.each(LISTS)('$operation 200', ({ path, insert }) => {
  const service = serviceOfTests();
  beforeAll(() => insert(service, IDS));

  const ids = async (query: string) =>
    idsOf((await service.api.get(`${path}?${query}`).expect(200)).text);

  it.each([undefined, 1, 7, 99, 100])(
    'has each item on one page, in order and with every digit, through Link alone: limit=%s',
    async (limit) => {
      const pages = await walk(service, limit === undefined ? path : `${path}?limit=${limit}`);
      const sizes = pages.map(({ text }) => idsOf(text).length);
      expect(pages.flatMap(({ text }) => idsOf(text))).toEqual(IDS);
      expect(pages).toHaveLength(Math.ceil(COUNT / (limit ?? 20)));
      expect(new Set(sizes.slice(0, -1))).toEqual(new Set([limit ?? 20]));
    },
  );

  it.each([
    ['', 'limit=20'],
    ['?limit=5&other=1&access_token=x', 'limit=5'],
  ])('has a Link that keeps limit, and nothing unknown, of %j', async (query, kept) => {
    const next = nextPage(await service.api.get(path + query))!;
    expect(next.split('&cursor=')).toEqual([
      `${path}?${kept}`,
      expect.stringMatching(/^[\w-]{16}$/),
    ]);
  });

  it.each([
    ...list('page=2 offset=1 LIMIT=1 id=1&id=2 sort[]=name limit]=1 petId=2 access_token=x'),
    ...list('__proto__=1 __proto__[limit]=1 constructor=1 toString[a]=1 =1 % &&'),
    ...(path === '/v1/pets' ? ['Status=sold'] : ['status=delivered', 'status[]=x']),
  ])('ignores the unknown parameter %s', async (query) => {
    expect(await ids(query)).toEqual(IDS.slice(0, 20));
  });

  it.each<[string, Record<string, string>, string]>([
    ['If-None-Match', { 'If-None-Match': '*' }, ''],
    ['If-Modified-Since', { 'If-Modified-Since': 'Fri, 31 Dec 2100 00:00:00 GMT' }, ''],
    ['a body of broken JSON', { 'Content-Type': 'application/json' }, '{'],
    ['a body of another type', { 'Content-Type': 'text/plain', 'Content-Encoding': 'br' }, 'x'],
    ['a body of 16 KiB and a byte', {}, ' '.repeat(16 * 1024 + 1)],
    ['a body in chunks', { 'Transfer-Encoding': 'chunked' }, 'some words in two chunks'],
  ])('is sent in full whatever %s says', async (_what, headers, body) => {
    const { status, text } = await send(service, { method: 'GET', path, headers, body });
    expect([status, idsOf(text)]).toEqual([200, IDS.slice(0, 20)]);
  });

  it('is an empty array without a Link if there are no items', async () => {
    await service.query('truncate pets, orders, idempotency_keys');
    const { text, headers } = await service.api.get(path).expect(200);
    expect(text).toBe('[]');
    expect(headers).not.toHaveProperty('link');
  });
});
