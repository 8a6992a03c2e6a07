import { until } from '../support/until.js';
import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { RawConnection, request } from '../support/raw-http.js';

describe('a connection', () => {
  const service = serviceOfTests();
  let authorization: string;
  beforeAll(async () => {
    authorization = `Authorization: Bearer ${service.key}`;
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });

  const json = 'Content-Type: application/json';
  const list = (...headers: string[]) => request('GET /v1/pets', [authorization, ...headers]);
  const create = (body: string, ...headers: string[]) =>
    request('POST /v1/pets', [authorization, json, ...headers], body);

  async function expectUsable(connection: RawConnection): Promise<void> {
    connection.send(list('X-Request-Id: still-usable'));
    expect(await connection.answer()).toMatchObject({
      status: 200,
      headers: { 'x-request-id': 'still-usable' },
    });
  }

  it('answers requests in the order in which they came, however long each takes', async () => {
    const connection = await RawConnection.open(service.port);
    const lines = [
      'GET /v1/pets',
      'GET /nowhere',
      'GET /v1/pets/1',
      'PUT /v1/pets',
      'GET /health/live',
    ];
    const requests = Array.from({ length: 50 }, (_, i) =>
      request(lines[i % lines.length]!, [authorization, `X-Request-Id: ${i}`]),
    );
    connection.send(requests.join(''));
    for (let i = 0; i < requests.length; i += 1) {
      const { status, headers } = await connection.answer();
      expect(headers['x-request-id']).toBe(`${i}`);
      expect(status).toBe([200, 404, 200, 405, 200][i % lines.length]);
    }
  });

  it('answers a good request before garbage once, then the garbage, and ends', async () => {
    const connection = await RawConnection.open(service.port);
    connection.send(`${create('{"name":"Once","categoryId":77}')}garbage\r\n\r\n`);
    expect((await connection.answer()).status).toBe(201);
    expectError(await connection.answer(), 400, 'invalid_request');
    expect(await connection.rest()).toBe('');
    const [{ count }] = await service.query(
      'select count(*)::int from pets where category_id = 77',
    );
    expect(count).toBe(1);
  });

  it.each([
    ['POST /v1/pets', 401],
    ['POST /nowhere', 404],
    ['DELETE /v1/pets', 405],
    ['OPTIONS /v1/pets', 204],
    ['GET /health/live', 200],
  ])('stays usable after %s with a small chunked body', async (line, status) => {
    const connection = await RawConnection.open(service.port);
    connection.send(
      `${request(line, [json, 'Transfer-Encoding: chunked'])}2\r\n{}\r\n0\r\n\r\n${list()}`,
    );
    expect((await connection.answer()).status).toBe(status);
    expect((await connection.answer()).status).toBe(200);
    await expectUsable(connection);
  });

  it('takes a chunked body', async () => {
    const connection = await RawConnection.open(service.port);
    const chunks = ['{"name":"Rex",', '"categoryId":1}'].map(
      (chunk) => `${chunk.length.toString(16)};x=y\r\n${chunk}\r\n`,
    );
    connection.send(
      request('POST /v1/pets', [authorization, json, 'Transfer-Encoding: chunked']) +
        `${chunks.join('')}0\r\nTrailer: x\r\n\r\n`,
    );
    expect((await connection.answer()).status).toBe(201);
    await expectUsable(connection);
  });

  it.each([
    [
      'a GET whose body is ignored',
      () => request('GET /v1/pets', [authorization], '{"limit":0}'),
      200,
    ],
    [
      'a GET of bad media type',
      () => request('GET /v1/pets', [authorization, 'Content-Type: x'], 'y'),
      200,
    ],
    ['a GET without a key whose body is ignored', () => request('GET /v1/pets', [], 'body'), 401],
    [
      'a refused POST without a key',
      () => request('POST /v1/pets', [json], 'x'.repeat(100_000)),
      401,
    ],
    ['a body over the limit', () => create('x'.repeat(100_000)), 413],
    [
      'a bad media type',
      () => request('POST /v1/pets', [authorization, 'Content-Type: x'], 'y'),
      415,
    ],
    ['a wrong method with a body', () => request('PUT /v1/pets', [json], '{}'), 405],
    ['an unknown path with a body', () => request('POST /nowhere', [json], '{}'), 404],
    ['a broken JSON body', () => create('{'), 400],
  ])('stays usable after %s', async (_title, bytes, status) => {
    const connection = await RawConnection.open(service.port);
    connection.send(bytes());
    expect((await connection.answer()).status).toBe(status);
    await expectUsable(connection);
  });

  it('goes on where it is asked to by Expect: 100-Continue', async () => {
    const connection = await RawConnection.open(service.port);
    const body = '{"name":"Rex","categoryId":1}';
    const [head] = create(body, 'Expect: 100-Continue').split(body);
    connection.send(head!);
    expect((await connection.answer()).status).toBe(100);
    connection.send(body);
    expect((await connection.answer()).status).toBe(201);
    await expectUsable(connection);
  });

  it.each([
    [401, 'without a key', () => [json]],
    [413, 'with a body over the limit', () => [authorization, json]],
    [415, 'of another media type', () => [authorization]],
  ])(
    'gets its %i in place of the 100 (Continue) that it waits for: a request %s',
    async (status, _title, headers) => {
      const connection = await RawConnection.open(service.port);
      const all = [...headers(), 'Content-Length: 20000', 'Expect: 100-continue'];
      connection.send(request('POST /v1/pets', all));
      const answer = await connection.answer();
      expect([answer.status, answer.headers['connection']]).toEqual([status, 'close']);
      expect(await connection.rest()).toBe('');
    },
  );

  it.each([
    'Expect: 200-ok',
    'Expect: x',
    'TE: trailers',
    'Range: bytes=0-1',
    'If-None-Match: *',
    'If-Modified-Since: Thu, 05 Dec 2030 00:00:00 GMT',
    'Accept-Encoding: gzip',
  ])('ignores %j', async (header) => {
    const connection = await RawConnection.open(service.port);
    connection.send(list(header));
    const { status, headers } = await connection.answer();
    expect(status).toBe(200);
    expect(headers).not.toHaveProperty('content-encoding');
    await expectUsable(connection);
  });

  it('of HTTP/1.0 needs no Host and ends after its answer', async () => {
    const connection = await RawConnection.open(service.port);
    connection.send(`GET /v1/pets HTTP/1.0\r\n${authorization}\r\n\r\n`);
    expect(await connection.answer()).toMatchObject({
      status: 200,
      headers: { connection: 'close', 'content-type': 'application/json; charset=utf-8' },
    });
    expect(await connection.rest()).toBe('');
  });

  it('ends after its answer where the client says so', async () => {
    const connection = await RawConnection.open(service.port);
    connection.send(list('Connection: close'));
    expect(await connection.answer()).toMatchObject({
      status: 200,
      headers: { connection: 'close' },
    });
    expect(await connection.rest()).toBe('');
  });

  describe('that vanishes leaves no request behind, and no connection', () => {
    it.each([
      ['before a byte', () => ''],
      ['amid the request line', () => 'GET /v1/p'],
      ['amid the headers', () => 'GET /v1/pets HTTP/1.1\r\nHost: te'],
      ['before its answer', () => list()],
      ['before many answers', () => list().repeat(20)],
      ['after garbage', () => 'garbage\r\n\r\n'],
      ['after CONNECT', () => 'CONNECT test:443 HTTP/1.1\r\nHost: test\r\n\r\n'],
      ['amid a body', () => create('{"name":"Rex","categoryId":1}').slice(0, -9)],
      [
        'amid a chunk',
        () =>
          request('POST /v1/pets', [authorization, json, 'Transfer-Encoding: chunked']) + '64\r\n{',
      ],
      ['amid a body over the limit', () => create('x'.repeat(100_000)).slice(0, -9)],
      [
        'amid the body of a refused request',
        () => request('POST /v1/pets', [json], 'x'.repeat(99)).slice(0, -9),
      ],
    ])('%s', async (_title, bytes) => {
      const before = await service.connections();
      for (let i = 0; i < 10; i += 1) {
        const connection = await RawConnection.open(service.port);
        connection.send(bytes());
        connection.vanish();
      }
      await until('no request is handled', () => service.admitted() === 0);
      await until('it is closed', async () => (await service.connections()) <= before);
    });
  });
});
