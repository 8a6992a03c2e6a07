import type { Answer } from '../support/answers.js';
import { serviceOfTests, startService, type TestService } from '../support/service.js';

const linksAt = (root: string) =>
  `<${root}/v1/pets>; rel="successor-version", ` +
  `<${root}/docs/guides/deprecation>; rel="deprecation"; type="text/html"`;

describe('getPet deprecation', () => {
  const service = serviceOfTests();
  beforeAll(() =>
    service.query(`insert into pets (id, name, category_id) values (-1, 'Rex', 1), (-2, 'Rex', 1)`),
  );

  it.each([
    ['-1', 200],
    ['1', 404],
    ['x', 404],
    ['9223372036854775808', 404],
  ])('announces the removal on the answer for %s: %s', async (petId, status) => {
    for (const method of ['get', 'head'] as const) {
      const { headers } = await service.api[method](`/v1/pets/${petId}`).expect(status);
      expect(headers['deprecation']).toBe(`@${Date.UTC(2026, 10, 19) / 1000}`);
      expect(headers['sunset']).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
      expect(headers['link']).toBe(linksAt(''));
    }
  });

  it.each<[string, number, (service: TestService) => Promise<Answer>]>([
    ['listPets', 200, async ({ api }) => api.get('/v1/pets?limit=1')],
    ['listPets', 400, async ({ api }) => api.get('/v1/pets?limit=0')],
    ['createPet', 201, async ({ api }) => api.post('/v1/pets').send({ name: 'a', categoryId: 1 })],
    ['createPet', 400, async ({ api }) => api.post('/v1/pets').send({})],
  ])('announces no removal on %s %s', async (_operation, expected, ask) => {
    const { status, headers } = await ask(service);
    expect(status).toBe(expected);
    expect(headers).not.toHaveProperty('deprecation');
    expect(headers).not.toHaveProperty('sunset');
    expect(headers['link'] ?? '').not.toMatch(/successor-version|deprecation/);
  });

  // Last: the strategies of passport are the process's, so an unknown key is checked by the service that started last.
  it.each([
    [{ PUBLIC_BASE_URL: 'https://animals.example/v1' }, linksAt('https://animals.example'), 200],
    [{ DOCS: 'off' }, '</v1/pets>; rel="successor-version"', 404],
  ] as [Record<string, string>, string, number][])(
    'names listPets and, if it is there, the page that says more, where clients reach them: %j',
    async (variables, link, page) => {
      const other = await startService(variables);
      const { headers } = await other.api.get('/v1/pets/1').expect(404);
      await other.anonymous.get('/docs/guides/deprecation').expect(page);
      await other.stop();
      expect(headers['link']).toBe(link);
    },
  );
});
