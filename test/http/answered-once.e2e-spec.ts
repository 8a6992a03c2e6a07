import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expectError } from '../support/answers.js';
import { until } from '../support/until.js';
import { startService, type TestService } from '../support/service.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';
import { setLimits } from '../support/set-limits.js';

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

  it.each([
    ['over the limit', 'POST /v1/pets', 413, () => [`Authorization: Bearer ${service.key}`]],
    ['without a key', 'POST /v1/pets', 401, () => []],
    ['for no path', 'POST /nowhere', 404, () => []],
  ])(
    'whose body is on its way when its connection is to end gets its answer: one %s',
    async (_what, line, status, headers) => {
      const json = ['Content-Type: application/json', 'Connection: close'];
      const bytes = request(line, [...headers(), ...json], 'x'.repeat(4_000_000));
      // Reads nothing before all is sent, as simple clients do.
      const client = connect(service.port, '127.0.0.1').pause();
      await new Promise<void>((resolve, reject) => {
        client.once('error', reject).write(bytes, () => resolve());
      });
      expect(await text(client)).toMatch(`HTTP/1.1 ${status} `);
    },
  );

  it('that follows the last one of its connection is not carried out', async () => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const connection = await RawConnection.open(service.port);
    const client = await service.pool.connect();
    try {
      await client.query('begin; lock table pets in access exclusive mode');
      connection.send(request('GET /v1/pets', [...headers, 'Connection: Upgrade', 'Upgrade: h2c']));
      await until('the list waits', async () => {
        const { rows } = await client.query('select 1 from pg_locks where not granted');
        return rows.length > 0;
      });
      connection.send(request('POST /v1/pets', headers, '{"name":"Rex","categoryId":1}'));
      await service.api.get('/v1/store/orders').expect(200);
      await client.query('commit');
      expect((await connection.answer()).status).toBe(200);
      expect(await connection.rest()).toBe('');
      await client.query('begin; lock table pets in access exclusive mode');
      expect((await client.query('select * from pets')).rows).toEqual([]);
      await client.query('commit');
    } finally {
      client.release();
    }
  });

  it('of HTTP/1.0 with chunks is the last of its connection', async () => {
    const connection = await RawConnection.open(service.port);
    const head = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const chunked = request('POST /v1/pets', [
      ...head,
      'Connection: keep-alive',
      'Transfer-Encoding: chunked',
    ]).replace('HTTP/1.1', 'HTTP/1.0');
    connection.send(`${chunked}2\r\n{}\r\n0\r\n\r\n`);
    const answer = await connection.answer();
    expectError(answer, 400, 'invalid_request');
    expect(answer.headers['connection']).toBe('close');
    expect(await connection.rest()).toBe('');
  });

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

describe('a createPet that came too late, and was told to come again', () => {
  let service: TestService;
  let resetLimits: () => void;
  beforeAll(async () => {
    resetLimits = setLimits({ headersTimeout: 200, requestTimeout: 200 });
    service = await startService();
  });
  afterAll(async () => {
    resetLimits();
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
