import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, request } from '../support/raw-http.js';

const list = (text: string) => text.trim().split(/\s+/);

describe('the target of a request', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });

  const get = (target: string, headers = [`Authorization: Bearer ${service.key}`]) =>
    exchange(service.port, request(`GET ${target}`, headers));

  it.each([
    ...list(`
      /v1 /v1/ /pets /v2/pets /v1/pet /v1/pets/ /v1/pets/1/ /v1/pets/1/2 //v1/pets //a@[/v1/pets#x
      /v1//pets /v1/pets//1 /V1/pets /v1/PETS /v1/Pets/1 /v1%2Fpets /v1/pets%2F1 /v1/pets%2f
      /v1/./pets /v1/x/../pets /v1/pets;limit=1 /v1/pets%3Flimit=1 /v1/pets%00 /v1/pets% /% /%ff
      /v1/orders /v1/store /v1/store/ /v1/store/orders/ /v1/store/orders/1 /v1/Store/orders
      /store/orders /health /health/live/ /Health/live /v1/health/live /v1/health/ready
      /favicon.ico * /constructor /__proto__`),
    '/v1\\pets#x',
  ])('is unknown, with a key or without: %s', async (target) => {
    expectError(await get(target), 404, 'route_not_found');
    expectError(await get(target, []), 404, 'route_not_found');
  });

  it.each([
    ['http://te st:x/', 400, 'invalid_request'],
    ['http://test:port/v1/nowhere', 404, 'route_not_found'],
    ['/v1/pets/\xff\xfe/x', 400, 'invalid_request'],
    ['\\v1\\pets', 400, 'invalid_request'],
  ])('however odd, gets an Error: %j', async (target, status, code) =>
    expectError(await get(target, []), status, code),
  );

  it.each(list('/ /?x http://test http://test/ http://[ http://[::1 http://%/'))(
    'without a path is the root: %s',
    async (target) => {
      expect(await get(target, [])).toMatchObject({ status: 303, headers: { location: './docs' } });
    },
  );

  it.each([
    ...list('/v1/pets/%31 /v1/p%65t%73/1 /v1/p%65ts/1?%zz /v1/pets/1?% /v1/pets/1?'),
    ...list('http://test/v1/pets/1 http://other.example:8080/v1/pets/1 HTTPS://test/v1/pets/1'),
  ])('means the same percent-encoded, absolute or neither: %s', async (target) => {
    const text = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';
    expect(await get(target)).toMatchObject({ status: 200, text });
    expectError(await get(target, []), 401, 'missing_api_key');
  });
});
