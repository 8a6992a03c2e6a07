import { expectError } from '../support/answers.js';
import { allowOf, DOCUMENT } from '../support/contract.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';

/** Paths, and the methods that they support. */
const ROUTES = [
  ...Object.entries<object>(DOCUMENT.paths).map(([path, item]) => {
    const methods = Object.keys(item).filter((name) => name !== 'parameters');
    const allow = allowOf(methods.map((name) => name.toUpperCase()));
    return [`/v1${path.replace('{petId}', '1')}`, allow] as const;
  }),
  ['/health/live', 'GET, HEAD, OPTIONS'],
  ['/health/ready', 'GET, HEAD, OPTIONS'],
  ['/', 'GET, HEAD, OPTIONS'],
  ['/docs', 'GET, HEAD, OPTIONS'],
] as const;

/** What Node's parser knows, apart from CONNECT, which has no path. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PURGE'];

describe('the method of a request', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    await service.query('insert into orders (pet_id) values (1), (1)');
  });

  const send = (line: string, headers: string[] = [], body?: string) =>
    exchange(service.port, request(line, headers, body));

  const wrong = ROUTES.flatMap(([path, allow]) =>
    METHODS.filter((method) => !allow.includes(method)).map(
      (method) => [method, path, allow] as const,
    ),
  );

  it.each(wrong)('is not %s on %s: 405 with Allow, no key needed', async (method, path, allow) => {
    const answer = await send(`${method} ${path}?limit=0`, [], '{');
    expectError(answer, 405, 'method_not_allowed', [method, allow]);
    expect(answer.headers['allow']).toBe(allow);
  });

  it.each(ROUTES)('is OPTIONS on %s: 204 with Allow and no body', async (path, allow) => {
    const connection = await RawConnection.open(service.port);
    connection.send(request(`OPTIONS ${path}`, ['Connection: close']));
    const { status, headers } = await connection.answer();
    expect(status).toBe(204);
    expect(headers).toMatchObject({ allow, 'x-request-id': expect.any(String) });
    expect(headers).not.toHaveProperty('content-length');
    expect(headers).not.toHaveProperty('content-type');
    expect(await connection.rest()).toBe('');
  });

  it.each([
    ['/v1/pets', 200],
    ['/v1/pets?limit=1', 200],
    ['/v1/pets?limit=0', 400],
    ['/v1/pets/1', 200],
    ['/v1/pets/2', 404],
    ['/v1/store/orders', 200],
    ['/v1/store/orders?limit=1', 200],
    ['/v1/store/orders?cursor=x', 400],
    ['/health/live', 200],
    ['/health/ready', 200],
    ['/', 200],
    ['/docs', 200],
    ['/nowhere', 404],
  ])('is HEAD on %s: as GET without the body', async (path, status) => {
    const headers = [
      `Authorization: Bearer ${service.key}`,
      'X-Request-Id: head',
      'Connection: close',
    ];
    const connection = await RawConnection.open(service.port);
    connection.send(request(`HEAD ${path}`, headers));
    const { date: _date, ...head } = (await connection.answer('HEAD')).headers;
    expect(await connection.rest()).toBe('');
    const get = await send(`GET ${path}`, headers);
    expect(get.status).toBe(status);
    const { date: _other, ...expected } = get.headers;
    expect(head).toEqual(expected);
    expect(Number(head['content-length'])).toBe(Buffer.byteLength(get.text));
  });

  it('is HEAD without a key: 401', async () => {
    const connection = await RawConnection.open(service.port);
    connection.send(request('HEAD /v1/pets', ['Connection: close']));
    expect(await connection.answer('HEAD')).toMatchObject({
      status: 401,
      headers: { 'www-authenticate': 'Bearer realm="animal-store"' },
    });
    expect(await connection.rest()).toBe('');
  });

  it.each(['FOO', 'get', 'GETT'])('is not %s, which is no method: 400', async (method) => {
    expectError(await send(`${method} /v1/pets`), 400, 'invalid_request');
  });

  it('is not CONNECT: an Error, and the connection ends', async () => {
    const connection = await RawConnection.open(service.port);
    connection.send(
      'CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\nX-Request-Id: a\r\n\r\n',
    );
    const answer = await connection.answer();
    expectError(answer, 404, 'route_not_found');
    expect(answer.headers['x-request-id']).toBe('a');
    expect(await connection.rest()).toBe('');
  });

  it('CONNECT is answered after the requests before it, which it takes nothing from', async () => {
    const body = '{"name":"Rex","categoryId":1}';
    const fields = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const connection = await RawConnection.open(service.port);
    connection.send(request('POST /v1/pets', fields, body) + request('CONNECT test:443'));
    expect((await connection.answer()).status).toBe(201);
    expectError(await connection.answer(), 404, 'route_not_found');
    expect(await connection.rest()).toBe('');
  });

  it('is not overridden by a header', async () => {
    const answer = await send('GET /health/live', ['X-HTTP-Method-Override: DELETE']);
    expect(answer.status).toBe(200);
  });
});
