import { nextPage, walk } from '../support/answers.js';
import { idsOf } from '../support/lists.js';
import { serviceOfTests } from '../support/service.js';

const STATUSES = ['available', 'pending', 'sold'];

/** Ids 1 to 500; one animal in eight is sold. */
const PETS = Array.from({ length: 500 }, (_, i) => ({
  id: BigInt(i + 1),
  status: STATUSES[i % 8 === 0 ? 2 : i % 2]!,
}));

describe('the pages of listPets', () => {
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

  it.each([
    [20, 'sold'],
    [3, 'sold'],
    [21, 'sold'],
    [64, 'available'],
    [100, 'pending'],
  ])(
    'reach each animal of a status once, in order, through Link alone: limit=%s status=%s',
    async (limit, status) => {
      const pages = await walk(service, `/v1/pets?limit=${limit}&status=${status}`);
      const expected = idsWith(status);
      expect(pages.flatMap(({ text }) => idsOf(text))).toEqual(expected);
      expect(pages).toHaveLength(Math.ceil(expected.length / limit));
    },
  );

  it('keep limit and status in the Link, with the cursor that clients may hold', async () => {
    const next = nextPage(await service.api.get('/v1/pets?status=pending&limit=10'))!;
    expect(next).toBe('/v1/pets?limit=10&status=pending&cursor=AAAAAAAAABRSSnNu');
  });

  it('begin after a cursor with another limit and status too', async () => {
    const cursor = nextPage(await service.api.get('/v1/pets?limit=10'))!.split('cursor=')[1];
    const { text } = await service.api.get(`/v1/pets?cursor=${cursor}&limit=2&status=sold`);
    expect(idsOf(text)).toEqual(
      idsWith('sold')
        .filter((id) => id > 10n)
        .slice(0, 2),
    );
  });

  it('are the same for the same cursor, with what was added meanwhile', async () => {
    const next = nextPage(await service.api.get('/v1/pets?limit=50&status=sold'))!;
    const before = await service.api.get(next).expect(200);
    expect((await service.api.get(next)).text).toBe(before.text);
    await service.query(
      `insert into pets (id, name, category_id, status) values (9223372036854775807, 'last', 1, 'sold')`,
    );
    const after = await service.api.get(next).expect(200);
    expect(idsOf(after.text)).toEqual([...idsOf(before.text), 2n ** 63n - 1n]);
    await service.query('delete from pets where id = 9223372036854775807');
  });

  it('turn between ids at the edges of int64, of one status too', async () => {
    const edges = [
      '-9223372036854775808',
      '-9223372036854775807',
      '9223372036854775806',
      '9223372036854775807',
    ];
    await service.query(
      `insert into pets (id, name, category_id, status)
       select id, 'edge', 1, 'available' from unnest($1::bigint[]) as id`,
      [edges],
    );
    const pages = await walk(service, '/v1/pets?limit=1&status=available');
    const ids = pages.flatMap(({ text }) => idsOf(text));
    const [least, next, nextToLast, last] = edges.map(BigInt);
    expect(ids).toEqual([least, next, ...idsWith('available'), nextToLast, last]);
    await service.query(`delete from pets where name = 'edge'`);
  });

  it('are each their own if 300 are asked for at once', async () => {
    await Promise.all(
      Array.from({ length: 300 }, async (_, i) => {
        const [limit, status] = [(i % 100) + 1, [...STATUSES, undefined][i % 4]];
        const filter = status === undefined ? '' : `&status=${status}`;
        const page = await service.api.get(`/v1/pets?limit=${limit}${filter}`).expect(200);
        expect(idsOf(page.text)).toEqual(idsWith(status).slice(0, limit));
        expect(nextPage(page) ?? '').toMatch(
          idsWith(status).length > limit ? `/v1/pets?limit=${limit}${filter}&cursor=` : /^$/,
        );
      }),
    );
    const pages = await walk(service, '/v1/pets?limit=5');
    const cursors = pages.slice(0, -1).map((page) => nextPage(page)!);
    const again = await Promise.all(cursors.map((path) => service.api.get(path).expect(200)));
    expect(again.map(({ text }) => text)).toEqual(pages.slice(1).map(({ text }) => text));
  });
});
