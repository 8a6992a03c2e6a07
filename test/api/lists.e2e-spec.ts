import { Gate } from '../../src/gate/gate.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import { cursorAfter } from '../../src/listing/cursors.js';
import { ORDERS } from '../../src/orders/orders.service.js';
import { PETS } from '../../src/pets/pets.service.js';
import { expectError, nextPage, walk } from '../support/answers.js';
import { query } from '../support/ask.js';
import { DOCUMENT, resolved } from '../support/contract.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const LISTS = [
  {
    operation: 'listPets',
    path: '/v1/pets',
    filters: PETS.filters,
    insert: `insert into pets (id, name, category_id) select id, 'pet ' || id, id from unnest($1::bigint[]) as id order by random()`,
  },
  {
    operation: 'listOrders',
    path: '/v1/store/orders',
    filters: ORDERS.filters,
    insert: `with pet as (insert into pets (id, name, category_id) values (1, 'Rex', 1) on conflict do nothing)
             insert into orders (id, pet_id) overriding system value
             select id, 1 from unnest($1::bigint[]) as id order by random()`,
  },
];

/** @returns the ids of a page, exactly. */
const idsOf = (text: string) => [...text.matchAll(/"id":(-?\d+)/g)].map(([, id]) => BigInt(id!));

const list = (text: string) => text.trim().split(/\s+/);

/** Not dense, on both sides of what a double holds, and next to each other at the edges of int64. */
const IDS = [
  INT64_MIN,
  INT64_MIN + 1n,
  ...Array.from({ length: 126 }, (_, i) => BigInt(i - 64) * 18_000_000_000_000_001n + 1n),
  INT64_MAX - 1n,
  INT64_MAX,
];

/** One animal in eight is sold. */
const IDS_WITH: Record<string, bigint[]> = {
  available: IDS.filter((id) => id % 8n !== 0n && id % 2n === 0n),
  pending: IDS.filter((id) => id % 2n !== 0n),
  sold: IDS.filter((id) => id % 8n === 0n),
};

/** Values that are no limit, and no status. */
const LIMITS =
  list(`0 00 -0 -1 101 1000 1e1 1e 0x10 0b1 +5 %2B5 05 005 5.0 5. .5 %205 5%20 5%0A %095 5%00 1,0 1_0
  % %zz 2% 5;status=sold %EF%BC%95 %D9%A5 %FF five null undefined Infinity 18446744073709551617`);
const STATUSES = list(`
  % sold% SOLD Sold sold%20 %20sold sold%00 sold%0A sold,pending sol null * toString sold'--`);

/** Queries in which a parameter is empty, sent twice, or has brackets. `encoded` has a percent-encoded letter. */
const malformed = (name: string, value: string) => {
  const once = `${name}=${value}`;
  const encoded = `%${name.charCodeAt(0).toString(16)}${once.slice(1)}`;
  const [array, gt] = [`${name}[]=${value}`, `${name}[gt]=${value}`];
  const twice = [encoded, `${'x=1&'.repeat(1500)}${once}`, array].map((it) => `${once}&${it}`);
  return [...twice, `${array}&${once}`, `${name}=`, name, gt, gt.replace('[gt]', '%5B%5D')];
};

const service = serviceOfTests();
beforeAll(async () => {
  for (const { insert } of LISTS) {
    await service.query(insert, [IDS]);
  }
  await service.query(
    `update pets set status = case when id % 8 = 0 then 'sold' when id % 2 <> 0 then 'pending' else status end`,
  );
});

/** Expects that the pages from `path` on, through Link alone, have these ids in order, `limit` on each but the last. */
async function expectPages(path: string, ids: bigint[], limit: number) {
  const pages = await walk(service, path);
  const starts = Array.from({ length: Math.ceil(ids.length / limit) }, (_, i) => i * limit);
  expect(pages.map(({ text }) => idsOf(text))).toEqual(
    starts.map((start) => ids.slice(start, start + limit)),
  );
}

describe.each(LISTS)('$operation', ({ path, filters }) => {
  const parameters = ['limit', ...filters.map(({ property }) => property), 'cursor'];

  it.each([undefined, 1, 7, 99, 100])(
    'has each item on one page, in order and with every digit, through Link alone: limit=%s',
    (limit) => expectPages(limit ? `${path}?limit=${limit}` : path, IDS, limit ?? 20),
  );

  it.each([
    ...list('page=2 offset=1 LIMIT=1 id=1&id=2 sort[]=name limit]=1 petId=2 access_token=x'),
    ...list('__proto__=1 __proto__[limit]=1 constructor=1 toString[a]=1 =1 % &&'),
    ...(path === '/v1/pets' ? ['Status=sold'] : ['status=delivered', 'status[]=x']),
  ])('ignores the unknown parameter %s', async (query) => {
    const { text } = await service.api.get(`${path}?${query}`).expect(200);
    expect(idsOf(text)).toEqual(IDS.slice(0, 20));
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

  const refuses = async (query: string, words: readonly string[]) =>
    expectError(await service.api.get(`${path}?${query}`), 400, 'invalid_request', words);

  const [own, other] = path === '/v1/pets' ? ['pets', 'orders'] : ['orders', 'pets'];
  const cursor = cursorAfter(own!, 1n);
  const invalid: Record<string, string[]> = {
    limit: [...LIMITS, '9'.repeat(400)],
    status: STATUSES,
    // Not issued by the service, or by the other list, or after the greatest id. cursors.spec.ts has more.
    cursor: ['1', `${cursor}=`, `${cursor}%0A`, 'A'.repeat(8000)].concat(
      cursorAfter(other!, 1n),
      cursorAfter(own!, INT64_MAX),
    ),
  };
  const valid: Record<string, string> = { limit: '5', status: 'sold', cursor };

  it.each(
    parameters.flatMap((name) => [
      ...(invalid[name] ?? []).map((value) => [name, `${name}=${value}`]),
      ...malformed(name, valid[name] ?? '1').map((query) => [name, query]),
    ]),
  )('refuses the %s of %s', (name, query) => refuses(query!, [name!]));

  it('has the parameters of the OpenAPI document', () => {
    const { get } = DOCUMENT.paths[path.slice('/v1'.length)];
    const documented = get.parameters.map(resolved).filter((one: any) => one.in === 'query');
    expect(documented.map((one: any) => one.name).toSorted()).toEqual(parameters.toSorted());
  });

  it('names every error, and nothing else', async () => {
    await refuses(parameters.map((name) => `${name}=x`).join('&'), parameters);
    const answer = await service.api.get(`${path}?limit=0&cursor=${cursor}`);
    expect(answer.body.message).not.toMatch(/status|cursor/);
  });
});

describe('listPets', () => {
  it.each([
    [1, 'sold'],
    [IDS_WITH['sold']!.length, 'sold'],
    [IDS_WITH['sold']!.length - 1, 'sold'],
    [20, 'available'],
    [20, 'pending'],
  ])(
    'has each animal of a status on one page, in order, through Link alone: limit=%s status=%s',
    (limit, status) =>
      expectPages(`/v1/pets?limit=${limit}&status=${status}`, IDS_WITH[status]!, limit),
  );

  it('has for each of many requests at once its own page, after a cursor with another limit and status too', async () => {
    const [, cursor] = nextPage(await service.api.get('/v1/pets?limit=10'))!.split('&');
    const [sold, pending] = ['sold', 'pending'].map((status) => IDS_WITH[status]!);
    const next = (after: bigint) => IDS.filter((id) => id > after).slice(0, 1);
    const wanted: [query: string, ids: bigint[]][] = [
      ['limit=2', IDS.slice(0, 2)],
      ['limit=1', IDS.slice(0, 1)],
      [`limit=2&${cursor}`, IDS.slice(10, 12)],
      [`limit=2&status=sold&${cursor}`, sold!.filter((id) => id > IDS[9]!).slice(0, 2)],
      ['limit=2&status=sold', sold!.slice(0, 2)],
      ['limit=2&status=pending', pending!.slice(0, 2)],
      // A double would hold both ids of a pair as one.
      ...[INT64_MIN, INT64_MIN + 1n, INT64_MAX - 2n, INT64_MAX - 1n].map(
        (after) =>
          [`limit=1&cursor=${cursorAfter('pets', after)}`, next(after)] as [string, bigint[]],
      ),
    ];
    const all = Array.from({ length: 5 }, () => wanted).flat();
    const pages = await Promise.all(all.map(([query]) => service.api.get(`/v1/pets?${query}`)));
    expect(pages.map(({ text }) => idsOf(text))).toEqual(all.map(([, ids]) => ids));
  });

  it('has every animal that was created before a walk through its pages, and none twice, while others are created', async () => {
    await service.query('truncate pets cascade');
    const created: bigint[] = [];
    const create = async () => {
      const { text } = await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 });
      created.push(...idsOf(text));
    };
    for (const query of ['limit=20', 'limit=5&status=available', 'limit=9']) {
      await create();
      const before = [...created];
      const creating = Promise.all(Array.from({ length: 100 }, create));
      const ids = (await walk(service, `/v1/pets?${query}`)).flatMap(({ text }) => idsOf(text));
      await creating;
      expect(before.filter((id) => !ids.includes(id))).toEqual([]);
      expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => Number(a - b)));
    }
  });
});

it.each(['limit=100', 'l%69mit=100', '%6Cimit=%3100'])(
  'a list takes places in handlers for the rows that it asks for: %s',
  async (query) => {
    const admit = jest.spyOn(service.get(Gate), 'admit');
    await service.api.get(`/v1/pets?${query}`).expect(200);
    const rows = admit.mock.calls.map(([, , , asked]) => asked);
    admit.mockRestore();
    expect(rows).toEqual([101]);
  },
);

it('listOrders has exactly the fields of Order, with times in UTC to the microsecond, whatever time zone and date style the session has', async () => {
  await service.query('truncate pets, orders restart identity cascade');
  await service.query(`insert into pets (id, name, category_id) values (${INT64_MAX}, 'max', 1)`);
  await service.query(
    `insert into orders (pet_id, status, placed_at) values
       (${INT64_MAX}, 'approved', '0001-01-01Z'), (${INT64_MAX}, 'delivered', '9999-12-31T19:59:59.123456-04:00')`,
  );
  const items = [
    `{"id":1,"petId":${INT64_MAX},"status":"approved","placedAt":"0001-01-01T00:00:00.000000Z"}`,
    `{"id":2,"petId":${INT64_MAX},"status":"delivered","placedAt":"9999-12-31T23:59:59.123456Z"}`,
  ];
  expect((await service.api.get('/v1/store/orders').expect(200)).text).toBe(`[${items.join()}]`);
  const session = `set timezone to 'Asia/Kolkata'; set datestyle to 'German'`;
  const rows = await query(
    service.databaseUrl,
    session,
    `select ${ORDERS.json} as item from orders order by id`,
  );
  expect(rows.map(({ item }) => item)).toEqual(items);
});

it.each(LISTS)(
  '$operation is an empty array without a Link if there are no items',
  async ({ path }) => {
    await service.query('truncate pets, orders, idempotency_keys');
    const { text, headers } = await service.api.get(path).expect(200);
    expect(text).toBe('[]');
    expect(headers).not.toHaveProperty('link');
  },
);
