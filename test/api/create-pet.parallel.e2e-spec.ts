import { serviceOfTests } from '../support/service.js';

const COUNT = 300;

describe('createPet in parallel', () => {
  const service = serviceOfTests();
  beforeEach(() => service.query('truncate pets cascade'));

  it.each<[string, (i: number) => { name: string; categoryId: number; status: string }]>([
    ['identical', () => ({ name: 'twin', categoryId: 1, status: 'pending' })],
    [
      'different',
      (i) => ({
        name: `pet ${i}`,
        categoryId: i - 150,
        status: ['available', 'pending', 'sold'][i % 3]!,
      }),
    ],
    [
      'partly alike',
      (i) => ({ name: i % 2 ? '1' : '1:1', categoryId: i % 5, status: i % 3 ? 'sold' : 'pending' }),
    ],
  ])('gives each of 300 %s animals its own id and its own content', async (_what, content) => {
    const answers = await Promise.all(
      Array.from({ length: COUNT }, (_, i) =>
        service.api.post('/v1/pets').send(content(i)).expect(201),
      ),
    );
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(COUNT);
    answers.forEach(({ body, headers }, i) => {
      expect(body).toEqual({ id: expect.any(Number), ...content(i) });
      expect(headers['location']).toBe(`/v1/pets/${body.id}`);
    });
    const rows = await service.query(
      'select id::int, name, category_id::int as "categoryId", status from pets order by id',
    );
    expect(rows).toEqual(answers.map(({ body }) => body).toSorted((a, b) => a.id - b.id));
  });

  it('stores the valid ones of 300 animals and refuses the others', async () => {
    const answers = await Promise.all(
      Array.from({ length: COUNT }, (_, i) =>
        service.api.post('/v1/pets').send({ name: i % 2 ? 'a' : '\0', categoryId: i }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(
      Array.from({ length: COUNT }, (_, i) => (i % 2 ? 201 : 400)),
    );
    const [{ count }] = await service.query('select count(*)::int from pets');
    expect(count).toBe(COUNT / 2);
  });
});
