import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, request } from '../support/raw-http.js';

const list = (text: string) => text.split(' ');

describe('the target of a request', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });

  const get = (target: string, headers = [`Authorization: Bearer ${service.key}`]) =>
    exchange(service.port, request(`GET ${target}`, headers));

  it.each([
    ...list(
      '/v1 /v1/ /pets /v2/pets /v1/pet /v1/pets/ /v1/pets/1/ /v1/pets/1/2 //v1/pets //a@[/v1/pets#x',
    ),
    ...list(
      '/v1//pets /v1/pets//1 /V1/pets /v1/PETS /v1/Pets/1 /v1%2Fpets /v1/pets%2F1 /v1/pets%2f',
    ),
    ...list(
      '/v1/./pets /v1/x/../pets /v1/pets;limit=1 /v1/pets%3Flimit=1 /v1/pets%00 /v1/pets% /% /%ff',
    ),
    ...list(
      '/v1/orders /v1/store /v1/store/ /v1/store/orders/ /v1/store/orders/1 /v1/Store/orders',
    ),
    ...list(
      '/store/orders /health /health/live/ /Health/live /favicon.ico * /constructor /__proto__',
    ),
    '/v1\\pets#x',
  ])('is unknown, with a key or without: %s', async (target) => {
    expectError(await get(target), 404, 'route_not_found');
    expectError(await get(target, []), 404, 'route_not_found');
  });

  it.each([
    ['http://te st:x/', 400, 'invalid_request'],
    ['http://test:port/v1/nowhere', 404, 'route_not_found'],
    ['http://test:99999999/v1/nowhere', 404, 'route_not_found'],
    ['/v1/pets/\xff\xfe/x', 400, 'invalid_request'],
    ['/\xa0', 400, 'invalid_request'],
    ['\\v1\\pets', 400, 'invalid_request'],
  ])('however odd, gets an Error: %j', async (target, status, code) =>
    expectError(await get(target, []), status, code),
  );

  it.each(list('/ /?x http://test http://test/ http://[ http://[::1 http://%/'))(
    'without a path is the index: %s',
    async (target) => {
      const text = expect.stringContaining('"pets":"/v1/pets"');
      expect(await get(target, [])).toMatchObject({ status: 200, text });
    },
  );

  it.each(
    list(
      '% %1 %zz 1% %ff %c0%ae %ed%a0%80 1%2F2 1%00 1%0a %201 1%3F /v1/p%65ts/%zz /v1/p%65ts/%c3',
    ).map((id) => (id.startsWith('/') ? id : `/v1/pets/${id}`)),
  )('that is no petId is 401 without a key and 404 with one: %s', async (target) => {
    expectError(await get(target, []), 401, 'missing_api_key');
    expectError(await get(target), 404, 'pet_not_found');
  });

  it.each([
    ...list('/v1/pets/%31 /v1/p%65t%73/1 /v1/p%65ts/1?%zz /v1/pets/1?% /v1/pets/1?'),
    ...list('http://test/v1/pets/1 http://other.example:8080/v1/pets/1 HTTPS://test/v1/pets/1'),
  ])('means the same percent-encoded, absolute or neither: %s', async (target) => {
    const text = '{"id":1,"name":"Rex","categoryId":1,"status":"available"}';
    expect(await get(target)).toMatchObject({ status: 200, text });
    expectError(await get(target, []), 401, 'missing_api_key');
  });

  it.each(list('limit=% limit=%zz limit=2% limit=%ff status=% cursor=% status=sold%'))(
    'with a known parameter that does not decode is 400: ?%s',
    async (query) => {
      expectError(await get(`/v1/pets?${query}`), 400, 'invalid_request');
      expectError(await get(`/v1/pets?${query}`, []), 401, 'missing_api_key');
    },
  );

  it.each([
    ...list('x=% %=1 x=%ff %zz & = ? &&=& LIMIT=0 x[]=1&x[a]=2 __proto__[limit]=0 constructor=1'),
    'toString=1&hasOwnProperty=2',
  ])('with an unknown parameter, whatever it says, is 200: ?%s', async (query) =>
    expect((await get(`/v1/pets?${query}`)).status).toBe(200),
  );

  it('decodes the names and values of its query', async () => {
    expect((await get('/v1/pets?%73tatus=s%6fld')).text).toBe('[]');
    expectError(await get('/v1/pets?%6cimit=%30'), 400, 'invalid_request', ['limit']);
  });

  it('finds a known parameter behind very many unknown ones', async () =>
    expectError(await get(`/v1/pets?${'x&'.repeat(5_000)}limit=0`), 400, 'invalid_request'));
});
