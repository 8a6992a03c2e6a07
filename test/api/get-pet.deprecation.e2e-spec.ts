import type { Answer } from '../support/answers.js';
import { serviceOfTests, startService, type TestService } from '../support/service.js';

describe('getPet deprecation', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.query(
      `insert into pets (id, name, category_id) values (-1, 'Rex', 1), (-2, 'Rex', 1)`,
    );
  });

  const expectDeprecated = ({ headers }: Answer) => {
    expect(headers['deprecation']).toBe('@1795046400');
    expect(Number(headers['deprecation'].slice(1))).toBe(Date.UTC(2026, 10, 19) / 1000);
    expect(headers['sunset']).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
    expect(headers['link']).toBe(
      '</v1/pets>; rel="successor-version", ' +
        '</docs/guides/deprecation>; rel="deprecation"; type="text/html"',
    );
  };

  it.each([
    ['-1', 200],
    ['1', 404],
    ['x', 404],
    ['9223372036854775808', 404],
  ])('announces the removal on the answer for %s: %s', async (petId, status) => {
    expectDeprecated(await service.api.get(`/v1/pets/${petId}`).expect(status));
    expectDeprecated(await service.api.head(`/v1/pets/${petId}`).expect(status));
  });

  it('names a page that is there', async () => {
    const { headers } = await service.api.get('/v1/pets/1');
    const [, path] = /<([^<>]+)>; rel="deprecation"/.exec(headers['link']!)!;
    const page = await service.anonymous.get(path!).expect(200);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
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
  it('names listPets and the page where clients reach them', async () => {
    const other = await startService({ PUBLIC_BASE_URL: 'https://animals.example/v1' });
    const { headers } = await other.api.get('/v1/pets/1');
    await other.stop();
    expect(headers['link']).toBe(
      '<https://animals.example/v1/pets>; rel="successor-version", ' +
        '<https://animals.example/docs/guides/deprecation>; rel="deprecation"; type="text/html"',
    );
  });

  it('names no page where DOCS is off', async () => {
    const other = await startService({ DOCS: 'off' });
    const { headers } = await other.api.get('/v1/pets/1').expect(404);
    await other.stop();
    expect(headers['link']).toBe('</v1/pets>; rel="successor-version"');
  });
});
