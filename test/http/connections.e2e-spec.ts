import { until } from '../support/until.js';
import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { RawConnection, request } from '../support/raw-http.js';

describe('a connection', () => {
  const service = serviceOfTests();
  let authorization: string;
  let connection: RawConnection;
  beforeAll(async () => {
    authorization = `Authorization: Bearer ${service.key}`;
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });
  beforeEach(async () => {
    connection = await RawConnection.open(service.port);
  });
  afterEach(() => connection.vanish());

  const json = 'Content-Type: application/json';
  const chunked = 'Transfer-Encoding: chunked';
  const rex = '{"name":"Rex","categoryId":1}';
  const list = (...headers: string[]) => request('GET /v1/pets', [authorization, ...headers]);
  const create = (body?: string, ...headers: string[]) =>
    request('POST /v1/pets', [authorization, json, ...headers], body);

  const expectStatus = async (status: number) =>
    expect((await connection.answer()).status).toBe(status);

  async function expectUsable(): Promise<void> {
    connection.send(list('X-Request-Id: still-usable'));
    const headers = { 'x-request-id': 'still-usable' };
    expect(await connection.answer()).toMatchObject({ status: 200, headers });
  }

  it('answers requests in the order in which they came, however long each takes', async () => {
    const lines = ['GET /v1/pets', 'GET /no', 'GET /v1/pets/1', 'PUT /v1/pets', 'GET /health/live'];
    const requests = Array.from({ length: 20 }, (_, i) =>
      request(lines[i % lines.length]!, [authorization, `X-Request-Id: ${i}`]),
    );
    connection.send(requests.join(''));
    for (let i = 0; i < requests.length; i += 1) {
      const { status, headers } = await connection.answer();
      expect(headers['x-request-id']).toBe(`${i}`);
      expect(status).toBe([200, 404, 200, 405, 200][i % lines.length]);
    }
  });

  it('handles 20 requests without a complete response, answers them, and ends', async () => {
    const creates = Array.from({ length: 40 }, (_, i) =>
      create(`{"name":"Rex","categoryId":${1_000 + i}}`),
    );
    connection.send(creates.join(''));
    for (let i = 0; i < 20; i += 1) {
      const { status, headers } = await connection.answer();
      expect([status, headers['connection']]).toEqual([201, i < 19 ? 'keep-alive' : 'close']);
    }
    expect(await connection.rest()).toBe('');
    const created = await service.query('select category_id from pets where category_id >= 1000');
    expect(created).toHaveLength(20);
  });

  it('answers a good request before garbage once, then the garbage, and ends', async () => {
    connection.send(`${create('{"name":"Once","categoryId":77}')}garbage\r\n\r\n`);
    await expectStatus(201);
    expectError(await connection.answer(), 400, 'invalid_request');
    expect(await connection.rest()).toBe('');
    const created = await service.query('select from pets where category_id = 77');
    expect(created).toHaveLength(1);
  });

  it.each<[number, string, () => string[], string?]>([
    [200, 'GET /v1/pets', () => [authorization, 'Content-Type: x'], 'y'],
    [401, 'POST /v1/pets', () => [json], 'x'.repeat(100_000)],
    [413, 'POST /v1/pets', () => [authorization, json], 'x'.repeat(100_000)],
    [400, 'POST /v1/pets', () => [authorization, json], '{'],
    [405, 'PUT /v1/pets', () => [json], '{}'],
    [404, 'POST /nowhere', () => [json], '{}'],
    [204, 'OPTIONS /v1/pets', () => [json], '{}'],
  ])('stays usable after %i to %s with a body', async (status, line, headers, body = '') => {
    connection.send(request(line, headers(), body));
    await expectStatus(status);
    const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    connection.send(request(line, [...headers(), chunked]) + chunks + list());
    await expectStatus(status);
    await expectStatus(200);
    await expectUsable();
  });

  it('goes on where it is asked to by Expect: 100-Continue', async () => {
    const [head] = create(rex, 'Expect: 100-Continue').split(rex);
    connection.send(head!);
    await expectStatus(100);
    connection.send(rex);
    await expectStatus(201);
    await expectUsable();
  });

  it.each([
    [401, () => [json]],
    [413, () => [json, authorization]],
    [415, () => [authorization]],
  ])('gets its %i in place of the 100 (Continue) that it waits for', async (status, headers) => {
    const all = [...headers(), 'Content-Length: 20000', 'Expect: 100-continue'];
    connection.send(request('POST /v1/pets', all));
    const answer = await connection.answer();
    expect([answer.status, answer.headers['connection']]).toEqual([status, 'close']);
    expect(await connection.rest()).toBe('');
  });

  it('whose client has closed its side gets all responses, and is closed when idle', async () => {
    connection.send(list() + create(rex) + list());
    connection.halfClose();
    for (const status of [200, 201, 200]) {
      await expectStatus(status);
    }
    expect(await connection.rest()).toBe('');
    const idle = await RawConnection.open(service.port);
    idle.send(list());
    expect((await idle.answer()).status).toBe(200);
    idle.halfClose();
    expect(await idle.rest()).toBe('');
  });

  it.each([
    ['a request with Upgrade', () => create(rex, 'Upgrade: h2c', 'Connection: Upgrade')],
    [
      'HTTP/1.0 with chunks',
      () =>
        `${create(undefined, chunked).replace('1.1', '1.0')}${rex.length.toString(16)}\r\n${rex}\r\n0\r\n\r\n`,
    ],
  ])('ends with the response to %s, and handles nothing after it', async (_title, bytes) => {
    const count = async () => (await service.query('select from pets')).length;
    const before = await count();
    connection.send(bytes() + create(rex) + list());
    const answer = await connection.answer();
    expect([answer.status, answer.headers['connection']]).toEqual([201, 'close']);
    expect(await connection.rest()).toBe('');
    expect(await count()).toBe(before + 1);
  });

  it('of HTTP/1.0, which needs no Host, or whose client says so, ends after its answer', async () => {
    for (const [status, bytes] of [
      [200, `GET /v1/pets HTTP/1.0\r\n${authorization}\r\n\r\n`],
      [200, list('Connection: close')],
      // HTTP/1.0 has no 100 (Continue).
      [201, create(rex, 'Expect: 100-continue').replace('HTTP/1.1', 'HTTP/1.0')],
    ] as const) {
      const last = await RawConnection.open(service.port);
      last.send(bytes);
      const headers = { connection: 'close', 'content-type': 'application/json; charset=utf-8' };
      expect(await last.answer()).toMatchObject({ status, headers });
      expect(await last.rest()).toBe('');
    }
  });

  it.each([
    ['amid the headers', () => 'GET /v1/pets HTTP/1.1\r\nHost: te'],
    ['before many answers', () => list().repeat(20)],
    ['after garbage', () => 'garbage\r\n\r\n'],
    ['after CONNECT behind a request', () => list() + request('CONNECT test:443')],
    ['amid a body', () => create(rex).slice(0, -9)],
    ['amid a chunk', () => `${create(undefined, chunked)}64\r\n{`],
    ['amid a body over the limit', () => create('x'.repeat(100_000)).slice(0, -9)],
  ])('that vanishes %s leaves no request behind, and no connection', async (_title, bytes) => {
    const before = await service.connections();
    for (let i = 0; i < 10; i += 1) {
      const other = await RawConnection.open(service.port);
      other.send(bytes());
      other.vanish();
    }
    await until('no request is handled', () => service.admitted() === 0);
    await until('they are closed', async () => (await service.connections()) <= before);
  });
});
