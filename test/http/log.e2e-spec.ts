import { Client } from 'pg';
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

  const lines = () => service.log.map((line) => JSON.parse(line));
  const requestLines = () => lines().filter(({ msg }) => msg === 'request');

  /** Sends all of a createPet but its last byte. */
  async function beginCreate(key: string): Promise<RawConnection> {
    const connection = await RawConnection.open(service.port);
    const headers = [`Authorization: Bearer ${key}`, 'Content-Type: application/json'];
    connection.send(request('POST /v1/pets', headers, '{"name":"Rex"}').slice(0, -1));
    return connection;
  }

  it('has one line for each request, with its id, method, route, status, duration and key', async () => {
    await service.api.get('/v1/pets/123').set('X-Request-Id', 'one').expect(404);
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
        msg: 'request',
      },
    ]);
  });

  it('names the trace that a request belongs to', async () => {
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    const traceparent = `00-${trace}-00f067aa0ba902b7-01`;
    await service.api.get('/v1/pets').set({ traceparent }).expect(200);
    await service.api.get('/v1/pets').set('traceparent', `${traceparent}x`).expect(200);
    expect(requestLines().map((line) => line.trace)).toEqual([trace, undefined]);
  });

  it('ties what went wrong to its request', async () => {
    await service.query('alter table pets rename to other_pets');
    await service.api.get('/v1/pets').set('X-Request-Id', 'one').expect(500);
    await service.query('alter table other_pets rename to pets');
    expect(lines()).toMatchObject([
      { level: 'error', request: 'one', err: { message: expect.stringContaining('pets') } },
      { level: 'info', request: 'one', status: 500 },
    ]);
  });

  it.each<[string, string, string | undefined, number, string?]>([
    ['info', 'GET /v1/pets', '/v1/pets', 200],
    ['info', 'HEAD /v1/pets', '/v1/pets', 200],
    ['info', 'GET /v1/pets?limit=0', '/v1/pets', 400, 'invalid_request'],
    ['info', 'GET /nowhere', undefined, 404, 'route_not_found'],
    ['info', 'GET /%zz', undefined, 404, 'route_not_found'],
    ['info', 'PUT /v1/pets', '/v1/pets', 405, 'method_not_allowed'],
    ['info', 'OPTIONS /v1/pets', '/v1/pets', 204],
    ['info', 'CONNECT test:443', undefined, 404, 'route_not_found'],
    // Probes.
    ['debug', 'GET /health/live', '/health/live', 200],
    ['debug', 'GET /health/ready', '/health/ready', 200],
    ['info', 'GET /health/', undefined, 404, 'route_not_found'],
  ])('has one line at %s for %s', async (level, line, route, status, code = 'none') => {
    const [method] = line.split(' ');
    const connection = await RawConnection.open(service.port);
    connection.send(request(line, [`Authorization: Bearer ${service.key}`]));
    await connection.answer(method);
    const [{ code: logged = 'none', ...fields }, ...others] = requestLines();
    expect({ route: undefined, ...fields }).toMatchObject({ level, method, route, status });
    expect([logged, others]).toEqual([code, []]);
  });

  it.each([
    ['without a key', 'GET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n', 401, 'missing_api_key'],
    ['without Host', 'GET /v1/pets HTTP/1.1\r\n\r\n', 400, 'invalid_request'],
    ['that is no HTTP', 'hello\r\n\r\n', 400, 'invalid_request'],
  ])('has one line for a request %s, with its client', async (_what, bytes, status, code) => {
    await exchange(service.port, bytes);
    expect(requestLines()).toMatchObject([{ status, code, client: '127.0.0.1' }]);
  });

  it.each([
    ['a key seen before', () => service.key],
    ['an unknown key', newApiKey],
  ])('has one line for a client with %s that vanished amid its body', async (_title, key) => {
    (await beginCreate(key())).vanish();
    await until('its line is there', () => requestLines().length === 1, 5);
    expect(requestLines()).toMatchObject([{ client: '127.0.0.1' }]);
  });

  it('has one line for a body cut short while its key is being looked up', async () => {
    const { key } = await service.keys.issue('cold');
    const locker = new Client({ connectionString: service.databaseUrl });
    await locker.connect();
    await locker.query('begin; lock table api_keys in access exclusive mode');
    const connection = await beginCreate(key);
    connection.halfClose();
    await until('the look-up waits', async () => {
      const { rowCount } = await locker.query(
        `select from pg_locks where relation = 'api_keys'::regclass and not granted`,
      );
      return rowCount === 1;
    });
    await locker.end();
    expect((await connection.answer()).status).toBe(400);
    await connection.rest();
    await until('its line is there', () => requestLines().length === 1, 5);
  });

  it('holds no key and nothing of a query, a path or a body', async () => {
    const keys = [service.key, newApiKey(), 'not-a-key-but-a-secret'];
    const secret = 'needle-in-a-haystack';
    for (const key of keys) {
      const headers = [`Authorization: Bearer ${key}`, 'Content-Type: application/json'];
      const body = JSON.stringify({ name: secret, categoryId: secret, access_token: key });
      for (const bytes of [
        request(`GET /v1/pets?access_token=${key}&limit=${secret}`, headers),
        request(`GET /v1/pets?cursor=${secret}`, headers),
        request(`GET /v1/pets/${secret}`, headers),
        request(`GET /${key}/${secret}`, headers),
        request(`PUT /v1/pets/${secret}?${key}`, headers),
        request('POST /v1/pets', headers, body),
        request('POST /v1/pets', headers, `${body}x`),
        request('GET /v1/pets', [`Authorization: Basic ${key}`]),
        request('GET /v1/pets', [`Authorization: ${key} ${secret}`]),
        request('GET /v1/pets', [`X-Request-Id: ${secret} ${key}`, ...headers]),
        request('GET /v1/pets', [`traceparent: ${key}`, `X-Forwarded-For: ${key}`, ...headers]),
        `${key} ${secret}\r\n\r\n`,
      ]) {
        await exchange(service.port, bytes);
      }
    }
    expect(requestLines().length).toBe(keys.length * 12);
    for (const hidden of [...keys, secret]) {
      expect(service.log.join('')).not.toContain(hidden);
    }
  });

  it('cannot be given a line by a client', async () => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const encoded = encodeURIComponent(`\n${FORGED}\n`);
    for (const bytes of [
      ...[`?limit=${encoded}`, `?${encoded}`, `/${encoded}`].flatMap((rest) => [
        request(`GET /v1/pets${rest}`, headers),
        request(`PUT /v1/pets${rest}`, headers),
      ]),
      request(`GET /${encoded}`, headers),
      request('POST /v1/pets', headers, JSON.stringify({ name: `\n${FORGED}\n`, categoryId: 1 })),
      request('POST /v1/pets', headers, `\n${FORGED}\n`),
      request('POST /v1/pets', headers, `{"\n${FORGED}`),
      request('GET /v1/pets', [`X-Forwarded-For: \n${FORGED}`, ...headers]),
      request('GET /v1/pets', [`traceparent: a\r\n ${FORGED}`, ...headers]),
      request('GET /v1/pets', [`X-Request-Id: a\n${FORGED}`, ...headers]),
      request('GET /v1/pets', [`X-Request-Id: a\r\n ${FORGED}`, ...headers]),
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
