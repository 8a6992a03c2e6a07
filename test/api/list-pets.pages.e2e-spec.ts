import { nextPage, walk } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';

const COUNT = 1000;
const STATUSES = ['available', 'pending', 'sold'];

/** The animals' ids, not dense and on both sides of what a double holds, and the status of each. */
const PETS = Array.from({ length: COUNT }, (_, i) => ({
  id: BigInt(i - COUNT / 2) * 18_000_000_000_000_001n,
  status: STATUSES[i % 8 === 0 ? 2 : i % 2]!,
}));

describe('listPets pages', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.query(
      `insert into pets (id, name, category_id, status)
       select id, 'pet ' || id, id, status from unnest($1::bigint[], $2::text[]) as pets (id, status)
        order by random()`,
      [PETS.map(({ id }) => id), PETS.map(({ status }) => status)],
    );
  });

  const idsOf = (text: string) => [...text.matchAll(/"id":(-?\d+)/g)].map(([, id]) => BigInt(id!));
  const idsOfStatus = (status?: string) =>
    PETS.filter((pet) => status === undefined || pet.status === status).map(({ id }) => id);

  it.each([
    [undefined, undefined],
    [7, undefined],
    [50, undefined],
    [99, undefined],
    [100, undefined],
    [undefined, 'sold'],
    [3, 'sold'],
    [25, 'sold'],
    [100, 'sold'],
    [64, 'available'],
    [100, 'pending'],
  ])(
    'reaches each animal once, in order, through Link alone: limit=%s status=%s',
    async (limit, status) => {
      const query = new URLSearchParams();
      if (limit !== undefined) query.set('limit', String(limit));
      if (status !== undefined) query.set('status', status);
      const pages = await walk(service, `/v1/pets?${query}`);
      const expected = idsOfStatus(status);
      const size = limit ?? 20;
      expect(pages.flatMap(({ text }) => idsOf(text))).toEqual(expected);
      expect(pages).toHaveLength(Math.ceil(expected.length / size));
      expect(new Set(pages.slice(0, -1).map(({ text }) => idsOf(text).length))).toEqual(
        new Set([size]),
      );
      expect(pages.at(-1)!.headers).not.toHaveProperty('link');
    },
    60_000,
  );

  it.each([
    ['', '20', null],
    ['?limit=7', '7', null],
    ['?status=sold', '20', 'sold'],
    ['?status=pending&limit=100', '100', 'pending'],
    ['?limit=5&other=1&access_token=x', '5', null],
  ])(
    'keeps limit and status, and nothing else, in the Link of %j',
    async (query, limit, status) => {
      const next = nextPage(await service.api.get(`/v1/pets${query}`))!;
      const url = new URL(next, service.origin);
      expect(next).toMatch(/^\/v1\/pets\?/);
      const { cursor, ...others } = Object.fromEntries(url.searchParams);
      expect(others).toEqual(status === null ? { limit } : { limit, status });
      expect(cursor).toMatch(/^[A-Za-z0-9._~-]+$/);
      const after = await service.api.get(next).expect(200);
      expect(nextPage(after)).toMatch(new RegExp(`limit=${limit}\\b`));
    },
  );

  it('lets a cursor be used with another limit and status', async () => {
    const next = new URL(nextPage(await service.api.get('/v1/pets?limit=10'))!, service.origin);
    const cursor = next.searchParams.get('cursor');
    const answer = await service.api.get(`/v1/pets?cursor=${cursor}&limit=2&status=sold`);
    expect(idsOf(answer.text)).toEqual(
      idsOfStatus('sold')
        .filter((id) => id > PETS[9]!.id)
        .slice(0, 2),
    );
  });

  it('answers a cursor again and again, with what was added meanwhile', async () => {
    const next = nextPage(await service.api.get('/v1/pets?limit=100&status=sold'))!;
    const before = await service.api.get(next).expect(200);
    expect((await service.api.get(next)).text).toBe(before.text);
    await service.query(
      `insert into pets (id, name, category_id, status) values (9223372036854775807, 'last', 1, 'sold')`,
    );
    const after = await service.api.get(next).expect(200);
    expect(idsOf(after.text)).toEqual([...idsOf(before.text), 2n ** 63n - 1n]);
    await service.query('delete from pets where id = 9223372036854775807');
  });

  it.each([
    ['-9223372036854775808', '-9223372036854775807'],
    ['9223372036854775806', '9223372036854775807'],
  ])('turns the page between ids at the edge of int64: %s, %s', async (first, second) => {
    await service.query(
      `insert into pets (id, name, category_id, status) select id, 'edge', 1, 'available'
         from unnest($1::bigint[]) as id`,
      [[first, second]],
    );
    try {
      const pages = await walk(service, '/v1/pets?limit=1&status=available');
      const ids = pages.flatMap(({ text }) => idsOf(text).map(String));
      expect(ids.slice(ids.indexOf(first), ids.indexOf(first) + 2)).toEqual([first, second]);
      expect(ids).toHaveLength(idsOfStatus('available').length + 2);
    } finally {
      await service.query(`delete from pets where name = 'edge'`);
    }
  });
});
