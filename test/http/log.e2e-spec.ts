import { newApiKey } from '../../src/api-key.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { until } from '../support/until.js';
import { serviceOfTests } from '../support/service.js';

const FORGED = '{"level":"fatal","forged":true}';

describe('the log', () => {
  const service = serviceOfTests();
  beforeEach(() => {
    service.log.length = 0;
  });

  const requestLines = () =>
    service.log.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request');

  /** Sends all of a createPet but its last byte. */
  async function beginCreate(key: string): Promise<RawConnection> {
    const connection = await RawConnection.open(service.port);
    const headers = [`Authorization: Bearer ${key}`, 'Content-Type: application/json'];
    connection.send(request('POST /v1/pets', headers, '{"name":"Rex"}').slice(0, -1));
    return connection;
  }

  it('has one line for each request, with its id, method, route, status, duration, key and trace', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    const traceparent = `00-${trace}-00f067aa0ba902b7-01`;
    await service.api.get('/v1/pets/123').set({ 'X-Request-Id': 'one', traceparent }).expect(404);
    expect(requestLines()).toEqual([
      {
        level: 'info',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        request: 'one',
        method: 'GET',
        route: '/v1/pets/:petId',
        status: 404,
        code: 'pet_not_found',
        ms: expect.any(Number),
        key: '1',
        client: '127.0.0.1',
        trace,
        msg: 'request',
      },
    ]);
  });

  // test/http/metrics has more routes.
  it.each([
    ['debug', 200, request('GET /health/live')],
    ['info', 404, request('GET /health/')],
    ['info', 204, request('OPTIONS /v1/pets')],
    ['info', 404, request('CONNECT test:443')],
    ['info', 401, request('GET /v1/pets')],
    ['info', 400, 'GET /v1/pets HTTP/1.1\r\n\r\n'],
    ['info', 400, 'hello\r\n\r\n'],
  ])('has one line, at %s, with the client, for %i to %j', async (level, status, bytes) => {
    await exchange(service.port, bytes);
    expect(requestLines()).toMatchObject([{ level, status, client: '127.0.0.1' }]);
  });

  it('has one line for a client that vanished amid its body', async () => {
    for (const key of [service.key, newApiKey()]) {
      service.log.length = 0;
      (await beginCreate(key)).vanish();
      await until('its line is there', () => requestLines().length === 1, 5);
      expect(requestLines()).toMatchObject([{ client: '127.0.0.1' }]);
    }
  });

  it('holds no key and nothing of a query, a path, a body or a malformed header', async () => {
    const secret = 'needle-in-a-haystack';
    for (const key of [service.key, newApiKey(), 'not-a-key-but-a-secret']) {
      service.log.length = 0;
      const headers = [`Authorization: Bearer ${key}`, 'Content-Type: application/json'];
      const body = JSON.stringify({ name: secret, categoryId: secret, access_token: key });
      const all = [
        request(`GET /v1/pets?access_token=${key}&cursor=${secret}`, headers),
        request(`GET /v1/pets/${secret}`, headers),
        request(`PUT /${key}/${secret}`, headers),
        request('GET /v1/pets', [`X-Request-Id: ${secret} ${key}`, ...headers]),
        request('GET /v1/pets', [`traceparent: ${key}`, `X-Forwarded-For: ${key}`, ...headers]),
        request('POST /v1/pets', headers, body),
        request('POST /v1/pets', headers, `${body}x`),
        request('GET /v1/pets', [`Authorization: Basic ${key}`]),
        request('GET /v1/pets', [`Authorization: ${key} ${secret}`]),
        `${key} ${secret}\r\n\r\n`,
      ];
      for (const bytes of all) {
        await exchange(service.port, bytes);
      }
      expect(requestLines()).toHaveLength(all.length);
      expect(service.log.join('')).not.toContain(key);
      expect(service.log.join('')).not.toContain(secret);
    }
  });

  it('cannot be given a line by a client', async () => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const encoded = encodeURIComponent(`\n${FORGED}\n`);
    for (const bytes of [
      request(`GET /v1/pets?limit=${encoded}`, headers),
      request(`PUT /v1/pets/${encoded}`, headers),
      request('POST /v1/pets', headers, `\n${FORGED}\n`),
      ...['X-Forwarded-For: ', 'traceparent: a\r', 'X-Request-Id: a', 'X-Request-Id: a\r'].map(
        (header) => request('GET /v1/pets', [`${header}\n ${FORGED}`, ...headers]),
      ),
      request('GET /v1/pets', [`X-Request-Id: a\n${FORGED}`, ...headers]),
      request('GET /v1/pets', [`Authorization: Bearer a\r\n ${FORGED}`]),
      `${FORGED}\n${FORGED}\r\n\r\n`,
    ]) {
      await exchange(service.port, bytes);
    }
    for (const line of service.log) {
      expect(line).toMatch(/^[^\n\r]+\n$/);
      expect(JSON.parse(line)).not.toHaveProperty('forged');
    }
  });
});
