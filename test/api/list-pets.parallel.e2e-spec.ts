import { nextPage, walk } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';

describe('listPets in parallel', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.query(
      `insert into pets (id, name, category_id, status)
       select n, 'pet ' || n, n, (array['available', 'pending', 'sold'])[n % 3 + 1]
         from generate_series(1, 150) as n`,
    );
  });

  it('answers each of 300 requests at once with its own page', async () => {
    const statuses = ['available', 'pending', 'sold'];
    const all = Array.from({ length: 150 }, (_, i) => ({
      id: i + 1,
      status: statuses[(i + 1) % 3],
    }));
    await Promise.all(
      Array.from({ length: 300 }, async (_, i) => {
        const limit = (i % 100) + 1;
        const status = [...statuses, undefined][i % 4];
        const filter = status === undefined ? '' : `&status=${status}`;
        const { body, headers } = await service.api
          .get(`/v1/pets?limit=${limit}${filter}`)
          .expect(200);
        const matching = all.filter((pet) => status === undefined || pet.status === status);
        expect(body.map(({ id }: { id: number }) => id)).toEqual(
          matching.slice(0, limit).map(({ id }) => id),
        );
        if (matching.length > limit) {
          expect(headers['link']).toMatch(`/v1/pets?limit=${limit}${filter}&cursor=`);
        } else {
          expect(headers).not.toHaveProperty('link');
        }
      }),
    );
  });

  it('answers each of several cursors at once with its own page', async () => {
    const pages = await walk(service, '/v1/pets?limit=5');
    const after = pages.slice(0, -1).map((page) => nextPage(page)!);
    const answers = await Promise.all(after.map((path) => service.api.get(path).expect(200)));
    expect(answers.map(({ text }) => text)).toEqual(pages.slice(1).map(({ text }) => text));
  });
});
