import { serviceOfTests } from '../support/service.js';

describe.each([
  ['without PUBLIC_BASE_URL', {}, '/v1'],
  [
    'with PUBLIC_BASE_URL',
    { PUBLIC_BASE_URL: 'https://animals.example/v1' },
    'https://animals.example/v1',
  ],
  [
    'with PUBLIC_BASE_URL that has a path and a port',
    { PUBLIC_BASE_URL: 'http://example.org:8080/store/v1' },
    'http://example.org:8080/store/v1',
  ],
])('addresses in answers %s', (_when, variables: Record<string, string>, base) => {
  const service = serviceOfTests(variables);
  beforeAll(async () => {
    await service.query(
      `insert into pets (id, name, category_id, status) values (-2, 'a', 1, 'sold'), (-1, 'b', 1, 'sold')`,
    );
  });

  it('start a Location with the base', async () => {
    const { body, headers } = await service.api
      .post('/v1/pets')
      .set('Host', 'elsewhere.example')
      .set('X-Forwarded-Host', 'elsewhere.example')
      .send({ name: 'a', categoryId: 1 })
      .expect(201);
    expect(headers['location']).toBe(`${base}/pets/${body.id}`);
  });

  it('start the Link to the next page with the base, and the Link works', async () => {
    const { headers } = await service.api
      .get('/v1/pets?limit=1&status=sold')
      .set('X-Forwarded-Host', 'elsewhere.example')
      .expect(200);
    const [, cursor] =
      /^<(?:.*)\/pets\?limit=1&status=sold&cursor=([\w-]+)>; rel="next"$/.exec(headers['link']!) ??
      [];
    expect(headers['link']).toBe(`<${base}/pets?limit=1&status=sold&cursor=${cursor}>; rel="next"`);
    const next = await service.api.get(`/v1/pets?limit=1&status=sold&cursor=${cursor}`);
    expect(next.text).toBe('[{"id":-1,"name":"b","categoryId":1,"status":"sold"}]');
    expect(next.headers).not.toHaveProperty('link');
  });
});
