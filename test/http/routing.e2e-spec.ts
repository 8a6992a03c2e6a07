import { expectError } from '../support/answers.js';
import { allowOf, methodsOf, operations } from '../support/contract.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

const list = (text: string) => text.trim().split(/\s+/);

/** The paths of the OpenAPI document, and others, each with its `Allow`. */
const ROUTES = [
  ...Array.from(
    new Set(operations().map(({ path }) => path)),
    (path) => [path, allowOf(methodsOf(path))] as const,
  ),
  ...list('/health/live /health/ready / /docs').map((path) => [path, allowOf(['GET'])] as const),
];

/** What Node's parser knows, apart from CONNECT, which has no path. */
const METHODS = list('GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PURGE');

const service = serviceOfTests();
beforeAll(async () => {
  await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
});

describe('the method of a request', () => {
  /** @returns the response, after which the service sends nothing more. */
  async function lastAnswer(method: string, path: string) {
    const connection = await RawConnection.open(service.port);
    const headers = [`Authorization: Bearer ${service.key}`, 'X-Request-Id: one'];
    connection.send(request(`${method} ${path}`, [...headers, 'Connection: close']));
    const answer = await connection.answer(method);
    expect(await connection.rest()).toBe('');
    answer.headers['date'] = '';
    return answer;
  }

  it.each(ROUTES)('on %s is one of %s: 405; OPTIONS gets 204', async (path, allow) => {
    for (const method of METHODS.filter((one) => !allow.includes(one))) {
      const answer = await exchange(service.port, request(`${method} ${path}?limit=0`, [], '{'));
      expect([answer.status, answer.headers['allow']]).toEqual([405, allow]);
      if (method !== 'HEAD') {
        expectError(answer, 405, 'method_not_allowed', [method, allow]);
      }
    }
    const { status, headers, text } = await lastAnswer('OPTIONS', path);
    expect([status, headers['allow'], text]).toEqual([204, allow, '']);
    expect(headers).not.toHaveProperty('content-length');
  });

  it.each(list('/v1/pets /v1/pets?limit=0 /v1/pets/404 /health/ready /docs /nowhere'))(
    'is HEAD on %s: as GET without the body',
    async (path) => {
      const get = await lastAnswer('GET', path);
      expect(await lastAnswer('HEAD', path)).toEqual({ ...get, text: '' });
      expect(get.headers).toHaveProperty('content-length', `${Buffer.byteLength(get.text)}`);
    },
  );

  it('may be OPTIONS for *: 204', async () => {
    expect((await exchange(service.port, request('OPTIONS *'))).status).toBe(204);
  });

  it('is not CONNECT: an Error after the responses to earlier requests, and the connection ends', async () => {
    const connection = await RawConnection.open(service.port);
    const head = [`Authorization: Bearer ${service.key}`];
    connection.send(request('GET /v1/pets', head) + request('CONNECT x:1'));
    expect((await connection.answer()).status).toBe(200);
    expectError(await connection.answer(), 404, 'route_not_found');
    expect(await connection.rest()).toBe('');
  });
});

describe('the target of a request', () => {
  const get = (target: string, headers = [`Authorization: Bearer ${service.key}`]) =>
    exchange(service.port, request(`GET ${target}`, headers));

  it.each([
    ...list(`
      /v1 /v1/ /pets /v2/pets /v1/pet /v1/pets/ /v1/pets/1/ /v1/pets/1/2 //v1/pets //a@[/v1/pets#x
      /v1//pets /v1/pets//1 /V1/pets /v1/PETS /v1%2Fpets /v1/pets%2F1
      /v1/./pets /v1/x/../pets /v1/pets;limit=1 /v1/pets%3Flimit=1 /v1/pets%00 /v1/pets% /% /%ff /%c0%80 /%c1%bf /v1/%f5%80
      /v1/store /v1/store/orders/ /store/orders /health /health/live/ /Health/live /v1/health/live
      /favicon.ico * /constructor /__proto__ /docs/ /docs/guides/nothing /docs/guides/..%2fREADME`),
    '/v1\\pets#x',
  ])('is unknown, with a key or without: %s', async (target) => {
    expectError(await get(target), 404, 'route_not_found');
    expectError(await get(target, []), 404, 'route_not_found');
  });

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
    const text = expect.stringContaining('{"id":1,"name":"Rex","categoryId":1,');
    expect(await get(target)).toMatchObject({ status: 200, text });
    expectError(await get(target, []), 401, 'missing_api_key');
  });
});
