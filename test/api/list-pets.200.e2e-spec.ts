import { nextPage, walk } from '../support/answers.js';
import { itNotOnCitus } from '../support/citus.js';
import { idsOf } from '../support/lists.js';
import { serviceOfTests } from '../support/service.js';

const STATUSES = ['available', 'pending', 'sold'];

/** Ids 1 to 500, and those at the edges of int64; one animal in eight is sold. */
const PETS = [
  -(2n ** 63n),
  1n - 2n ** 63n,
  ...Array.from({ length: 500 }, (_, i) => BigInt(i + 1)),
  2n ** 63n - 2n,
  2n ** 63n - 1n,
].map((id) => ({ id, status: STATUSES[id % 8n === 0n ? 2 : Number(id & 1n)]! }));

describe('listPets 200', () => {
  const service = serviceOfTests();
  beforeAll(() =>
    service.query(
      `insert into pets (id, name, category_id, status)
       select id, 'pet', id, status from unnest($1::bigint[], $2::text[]) as pets (id, status)`,
      [PETS.map(({ id }) => id), PETS.map(({ status }) => status)],
    ),
  );

  const idsWith = (status?: string) =>
    PETS.filter((pet) => status === undefined || pet.status === status).map(({ id }) => id);

  it('is a bare array of pets, each with exactly the fields of Pet', async () => {
    const { text } = await service.api.get('/v1/pets?limit=2').expect(200);
    expect(text).toBe(
      '[{"id":-9223372036854775808,"name":"pet","categoryId":-9223372036854775808,"status":"sold"},' +
        '{"id":-9223372036854775807,"name":"pet","categoryId":-9223372036854775807,"status":"pending"}]',
    );
  });

  it.each([
    [1, 'sold'],
    [20, 'sold'],
    [21, 'sold'],
    [64, 'available'],
    [1, 'pending'],
  ])(
    'has each animal of a status on one page, in order, through Link alone: limit=%s status=%s',
    async (limit, status) => {
      const pages = await walk(service, `/v1/pets?limit=${limit}&status=${status}`);
      const expected = idsWith(status);
      expect(pages.flatMap(({ text }) => idsOf(text))).toEqual(expected);
      expect(pages).toHaveLength(Math.ceil(expected.length / limit));
    },
  );

  it('begins after a cursor with another limit and status too', async () => {
    const cursor = nextPage(await service.api.get('/v1/pets?limit=10'))!.split('cursor=')[1];
    const { text } = await service.api.get(`/v1/pets?cursor=${cursor}&limit=2&status=sold`);
    expect(idsOf(text)).toEqual([16n, 24n]);
  });

  // Citus has no shared statements, and so many at once are too much for it.
  itNotOnCitus('is each its own if 300 are asked for at once, among lists of orders', async () => {
    await service.query(
      'insert into orders (pet_id) select 1 + n % 2 from generate_series(1, 100) as n',
    );
    await Promise.all(
      Array.from({ length: 300 }, async (_, i) => {
        const [limit, status] = [(i % 100) + 1, [...STATUSES, undefined][i % 4]];
        const filter = status === undefined ? '' : `&status=${status}`;
        const orders = service.api.get(`/v1/store/orders?limit=${limit}`);
        const page = await service.api.get(`/v1/pets?limit=${limit}${filter}`).expect(200);
        expect(idsOf(page.text)).toEqual(idsWith(status).slice(0, limit));
        expect(nextPage(page) ?? '').toMatch(
          idsWith(status).length > limit ? `/v1/pets?limit=${limit}${filter}&cursor=` : /^$/,
        );
        expect((await orders).body).toHaveLength(limit);
      }),
    );
    const pages = await walk(service, '/v1/pets?limit=5');
    const cursors = pages.slice(0, -1).map((page) => nextPage(page)!);
    const again = await Promise.all(cursors.map((path) => service.api.get(path).expect(200)));
    expect(again.map(({ text }) => text)).toEqual(pages.slice(1).map(({ text }) => text));
  });
});
