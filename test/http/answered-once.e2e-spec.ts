import { connect } from 'node:net';
import { once } from 'node:events';
import { expectError } from '../support/answers.js';
import { until } from '../support/until.js';
import { serviceOfTests, startService, type TestService } from '../support/service.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';

describe('a request', () => {
  const service = serviceOfTests();

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

  it('without a key whose body breaks after its 401 gets no second answer', async () => {
    const connection = await RawConnection.open(service.port);
    connection.send(request('POST /v1/pets', ['Transfer-Encoding: chunked']));
    expect((await connection.answer()).status).toBe(401);
    connection.send('zz\r\n');
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

  it.each([
    ['over the limit', 'POST /v1/pets', 413, () => [`Authorization: Bearer ${service.key}`]],
    ['without a key', 'POST /v1/pets', 401, () => []],
    ['for no path', 'POST /nowhere', 404, () => []],
  ])(
    'whose body of a mebibyte is on its way gets its answer: one %s',
    async (_what, line, status, headers) => {
      const json = ['Content-Type: application/json'];
      const bytes = request(line, [...headers(), ...json], 'x'.repeat(1024 * 1024));
      // Reads nothing before all is sent, as simple clients do.
      const client = connect(service.port, '127.0.0.1').pause();
      await new Promise<void>((resolve, reject) => {
        client.once('error', reject).write(bytes, () => resolve());
      });
      const [response] = await once(client.resume(), 'data');
      expect(String(response)).toMatch(`HTTP/1.1 ${status} `);
      client.destroy();
    },
  );
});

describe('a createPet that came too late, and was told to come again', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService({}, undefined, {
      limits: { headersTimeout: 200, requestTimeout: 200 },
    });
  });
  afterAll(async () => {
    await service.stop();
  });

  it('creates nothing when the rest of it comes, nor does what follows', async () => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const bytes = request('POST /v1/pets', headers, '{"name":"Rex","categoryId":1}');
    const connection = await RawConnection.open(service.port);
    connection.send(bytes.slice(0, -1));
    expectError(await connection.answer(), 408, 'request_timeout');
    connection.send(bytes.slice(-1) + bytes);
    await until('it is logged', () => service.log.some((line) => line.includes('"status":408')));
    await service.api.get('/v1/pets').expect(200, []);
    connection.vanish();
  });
});
