import { serviceOfTests } from '../support/service.js';

const STATUSES = ['available', 'pending', 'sold'];

describe('createPet in parallel', () => {
  const service = serviceOfTests();
  beforeEach(() => service.query('truncate pets cascade'));

  const createAll = (content: (i: number) => object) =>
    Promise.all(
      Array.from({ length: 300 }, (_, i) => service.api.post('/v1/pets').send(content(i))),
    );

  it.each<[string, (i: number) => object]>([
    ['identical', () => ({ name: 'twin', categoryId: 1, status: 'pending' })],
    ['different', (i) => ({ name: `pet ${i}`, categoryId: i - 150, status: STATUSES[i % 3] })],
    [
      'partly alike',
      (i) => ({ name: i % 2 ? '1' : '1:1', categoryId: i % 5, status: i % 3 ? 'sold' : 'pending' }),
    ],
  ])('gives each of 300 %s animals its own id and its own content', async (_what, content) => {
    const answers = await createAll(content);
    answers.forEach(({ status, body, headers }, i) => {
      expect([status, body]).toEqual([201, { id: expect.any(Number), ...content(i) }]);
      expect(headers['location']).toBe(`/v1/pets/${body.id}`);
    });
    const rows = await service.query(
      'select id::int, name, category_id::int as "categoryId", status from pets order by id',
    );
    expect(rows).toEqual(answers.map(({ body }) => body).toSorted((a, b) => a.id - b.id));
  });

  it('stores the valid ones of 300 animals and refuses the others', async () => {
    const answers = await createAll((i) => ({ name: i % 2 ? 'a' : '\0', categoryId: i }));
    expect(answers.map(({ status }) => status)).toEqual(answers.map((_, i) => (i % 2 ? 201 : 400)));
    const [{ count }] = await service.query('select count(*)::int from pets');
    expect(count).toBe(150);
  });
});
