import { expectError } from '../support/answers.js';
import { allowOf, DOCUMENT, methodsOf } from '../support/contract.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';

/** The paths of the OpenAPI document, and others, each with its `Allow`. */
const ROUTES = [
  ...Object.keys(DOCUMENT.paths).map((path) => {
    const url = `/v1${path.replace('{petId}', '1')}`;
    return [url, allowOf(methodsOf(url))] as const;
  }),
  ...['/health/live', '/health/ready', '/', '/docs'].map(
    (path) => [path, allowOf(['GET'])] as const,
  ),
];

/** What Node's parser knows, apart from CONNECT, which has no path. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PURGE'];

describe('the method of a request', () => {
  const service = serviceOfTests();

  /** @returns the response, after which the service sends nothing more. */
  async function lastAnswer(method: string, path: string) {
    const connection = await RawConnection.open(service.port);
    const headers = [`Authorization: Bearer ${service.key}`, 'X-Request-Id: one'];
    connection.send(request(`${method} ${path}`, [...headers, 'Connection: close']));
    const answer = await connection.answer(method);
    expect(await connection.rest()).toBe('');
    return { ...answer, headers: { ...answer.headers, date: '' } };
  }

  it.each(
    ROUTES.flatMap(([path, allow]) =>
      METHODS.filter((method) => !allow.includes(method)).map((method) => [method, path, allow]),
    ),
  )('is not %s on %s: 405 with Allow, no key needed', async (method, path, allow) => {
    const answer = await exchange(service.port, request(`${method} ${path}?limit=0`, [], '{'));
    expectError(answer, 405, 'method_not_allowed', [method!, allow!]);
    expect(answer.headers['allow']).toBe(allow);
  });

  it.each(ROUTES)('is OPTIONS on %s: 204 with Allow and no body', async (path, allow) =>
    expect(await lastAnswer('OPTIONS', path)).toEqual({
      status: 204,
      headers: {
        date: '',
        connection: 'close',
        allow,
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'x-request-id': 'one',
      },
      text: '',
    }),
  );

  it.each([
    '/v1/pets',
    '/v1/pets?limit=0',
    '/v1/pets/404',
    '/v1/store/orders',
    '/health/ready',
    '/docs',
    '/nowhere',
  ])('is HEAD on %s: as GET without the body', async (path) => {
    const get = await lastAnswer('GET', path);
    expect(await lastAnswer('HEAD', path)).toEqual({ ...get, text: '' });
    expect(get.headers).toHaveProperty('content-length', `${Buffer.byteLength(get.text)}`);
  });

  it('may be OPTIONS for *: 204', async () => {
    expect((await exchange(service.port, request('OPTIONS *'))).status).toBe(204);
  });

  it('is not CONNECT: an Error after the responses to earlier requests, and the connection ends', async () => {
    const fields = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const connection = await RawConnection.open(service.port);
    connection.send(
      request('POST /v1/pets', fields, '{"name":"Rex","categoryId":1}') +
        request('CONNECT test:443', ['X-Request-Id: a']),
    );
    expect((await connection.answer()).status).toBe(201);
    const answer = await connection.answer();
    expectError(answer, 404, 'route_not_found');
    expect(answer.headers['x-request-id']).toBe('a');
    expect(await connection.rest()).toBe('');
  });
});
