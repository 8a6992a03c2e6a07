import { expectError } from '../answers.js';
import { startService, type TestService } from '../service.js';
import { exchange, RawConnection, request } from './raw-http.js';

describe('a request', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());

  it.each([
    ['POST /nope', 404],
    ['DELETE /v1/pets', 405],
    ['OPTIONS /v1/pets', 204],
  ])('%s whose body breaks at once is answered with %i, once', async (line, status) => {
    const connection = await RawConnection.open(service.port);
    connection.send(`${request(line, ['Transfer-Encoding: chunked'])}zz\r\n`);
    expect((await connection.answer()).status).toBe(status);
    expect(await connection.rest()).toBe('');
  });

  it.each([
    ['breaks', 'zz\r\n'],
    ['ends', undefined],
  ])('without a key whose body %s after its 401 gets no second answer', async (_how, bytes) => {
    const connection = await RawConnection.open(service.port);
    connection.send(request('POST /v1/pets', ['Transfer-Encoding: chunked']));
    expect((await connection.answer()).status).toBe(401);
    if (bytes === undefined) {
      connection.halfClose();
    } else {
      connection.send(bytes);
    }
    expect(await connection.rest()).toBe('');
  });

  it.each(['//a@[/v1/pets#x', 'http://x//a@[#', '//a@b/v1/pets#x', '/v1\\pets#x'])(
    'for %s is for no path of the service',
    async (target) => {
      const headers = [`Authorization: Bearer ${service.key}`];
      const answer = await exchange(service.port, request(`GET ${target}`, headers));
      expectError(answer, 404, 'route_not_found');
    },
  );

  it('that asks for another protocol is the last of its connection', async () => {
    const headers = [`Authorization: Bearer ${service.key}`];
    const connection = await RawConnection.open(service.port);
    const upgrade = ['Connection: Upgrade', 'Upgrade: h2c'];
    connection.send(request('GET /v1/pets', [...headers, ...upgrade]));
    const answer = await connection.answer();
    expect(answer.status).toBe(200);
    expect(answer.headers['connection']).toBe('close');
    expect(await connection.rest()).toBe('');
  });
});
