import { HttpLimits } from '../../src/http/limits.js';
import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';

describe('a request that is not well-formed HTTP', () => {
  const service = serviceOfTests();
  afterEach(() => service.api.get('/v1/pets').expect(200));

  /** A createPet with these header lines and these bytes for a body. */
  const post = (headers: string[], body: string) =>
    [
      'POST /v1/pets HTTP/1.1',
      'Host: test',
      `Authorization: Bearer ${service.key}`,
      'Content-Type: application/json',
      ...headers,
      '',
      body,
    ].join('\r\n');

  /** @returns the one answer, after which the service ends the connection. */
  async function lastAnswer(bytes: string | Buffer) {
    const connection = await RawConnection.open(service.port);
    connection.send(bytes);
    const answer = await connection.answer();
    expect(answer.headers).toMatchObject({
      date: expect.stringMatching(/ GMT$/),
      'cache-control': 'no-store',
      connection: 'close',
      'x-content-type-options': 'nosniff',
    });
    expect(await connection.rest()).toBe('');
    return answer;
  }

  const HOST = 'Host: test\r\n\r\n';

  it.each([
    ['garbage', 'hello\r\n\r\n'],
    ['bytes', Buffer.from([0, 1, 2, 255, 13, 10, 13, 10])],
    ['a TLS greeting', Buffer.from('1603010200010001fc0303', 'hex')],
    ['an HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['version 3', `GET /v1/pets HTTP/3.0\r\n${HOST}`],
    ['no target', `GET HTTP/1.1\r\n${HOST}`],
    ['a space in the target', `GET /v1 pets HTTP/1.1\r\n${HOST}`],
    ['a control character in the target', `GET /v1/\x01 HTTP/1.1\r\n${HOST}`],
    ['an unknown method', `FOO /v1/pets HTTP/1.1\r\n${HOST}`],
    ['a header without a name', `GET /v1/pets HTTP/1.1\r\n: y\r\n${HOST}`],
    ['NUL in a header', `GET /v1/pets HTTP/1.1\r\nX: \x00\r\n${HOST}`],
    ['a bare CR in a header', `GET /v1/pets HTTP/1.1\r\nX: a\rb\r\n${HOST}`],
  ])('gets 400 and its connection is closed: %s', async (_title, bytes) => {
    expectError(await lastAnswer(bytes), 400, 'invalid_request');
  });

  it.each([
    ['the request line', `GET /v1/pets HTTP/1.1\n${HOST}`],
    ['every line', 'GET /v1/pets HTTP/1.1\nHost: test\n\n'],
    ['a header', 'GET /v1/pets HTTP/1.1\r\nHost: test\n\r\n'],
  ])('is told to end lines with CR LF if LF alone ends %s', async (_title, bytes) => {
    expectError(await lastAnswer(bytes), 400, 'invalid_request', ['CR LF']);
  });

  it.each([
    ['that is no number', 'Content-Length: abc'],
    ['beyond 64 bits', 'Content-Length: 99999999999999999999'],
    ['in a list', 'Content-Length: 2, 2'],
    ['sent twice', 'Content-Length: 2\r\nContent-Length: 2'],
    ['beside Transfer-Encoding', 'Content-Length: 2\r\nTransfer-Encoding: chunked'],
  ])('gets 400 and its connection is closed: a Content-Length %s', async (_title, header) => {
    expectError(await lastAnswer(post([header], '{}')), 400, 'invalid_request');
  });

  it.each([
    ['a chunk size that is no number', 'zz\r\n'],
    ['a chunk longer than its size', '1\r\n{}\r\n0\r\n\r\n'],
  ])('gets 400 and its connection is closed: %s', async (_title, body) => {
    expectError(
      await lastAnswer(post(['Transfer-Encoding: chunked'], body)),
      400,
      'invalid_request',
    );
  });

  it.each(['Transfer-Encoding: gzip', 'Transfer-Encoding: chunked, gzip'])(
    'gets 400 and its connection is closed: %s, whose end nobody knows',
    async (header) => {
      expectError(await lastAnswer(post([header], '0\r\n\r\n')), 400, 'invalid_request');
    },
  );

  describe.each([
    [
      'in one packet',
      (connection: RawConnection, head: string, body: string) => connection.send(head + body),
    ],
    [
      'after its headers',
      async (connection: RawConnection, head: string, body: string) => {
        connection.send(head);
        await service.anonymous.get('/health/live');
        connection.send(body);
      },
    ],
  ])('with a malformed body, %s, is answered as without one where none is read', (_title, send) => {
    const KEY = () => `Authorization: Bearer ${service.key}`;
    it.each([
      ['POST /v1/pets', () => [], 401],
      ['POST /v1/pets', () => ['Authorization: Bearer x'], 401],
      ['GET /v1/pets', () => [KEY()], 200],
      ['GET /v1/pets/0', () => [KEY()], 404],
      ['HEAD /v1/pets', () => [KEY()], 200],
      ['PUT /v1/pets', () => [KEY()], 405],
      ['OPTIONS /v1/pets', () => [], 204],
      ['POST /nowhere', () => [KEY()], 404],
      ['POST /v1/pets', () => [KEY(), 'Content-Type: text/plain'], 415],
      ['POST /v1/pets', () => [KEY(), 'Content-Type: application/json'], 400],
    ])('%s %#', async (line, headers, status) => {
      const connection = await RawConnection.open(service.port);
      const head = request(line, [...headers(), 'Transfer-Encoding: chunked']);
      await send(connection, head, 'zz\r\n');
      const isHead = line.startsWith('HEAD');
      expect((await connection.answer(isHead ? 'HEAD' : 'GET')).status).toBe(status);
      connection.send('zz\r\n');
      expect(await connection.rest()).toBe('');
    });
  });

  it('gets 413 for chunk extensions without end', async () => {
    const body = `2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`;
    expectError(
      await lastAnswer(post(['Transfer-Encoding: chunked'], body)),
      413,
      'payload_too_large',
    );
  });

  it.each([
    ['one long header', (size: number) => request('GET /', [`X: ${'x'.repeat(size)}`])],
    ['a long name', (size: number) => request('GET /', [`${'X'.repeat(size)}: x`])],
    [
      'many headers',
      (size: number) => request('GET /', Array(100).fill(`X: ${'x'.repeat(size / 100)}`)),
    ],
    ['a long target', (size: number) => request(`GET /${'x'.repeat(size)}`)],
  ])('gets 431 and its connection is closed: %s', async (_title, bytesOf) => {
    for (const times of [1, 4]) {
      const bytes = bytesOf(times * new HttpLimits().headerBytes);
      expectError(await lastAnswer(bytes), 431, 'headers_too_large');
    }
  });

  it.each([
    ['sent at once', 1],
    ['sent bit by bit', 50],
  ])('gets its 431, far over the limit and %s', async (_title, pieces) => {
    const connection = await RawConnection.open(service.port);
    const [start, end] = ['GET /v1/pets HTTP/1.1\r\nX: ', 'x'.repeat(500_000 / pieces)];
    connection.send(start);
    for (let i = 0; i < pieces; i += 1) {
      connection.send(end);
    }
    expectError(await connection.answer(), 431, 'headers_too_large');
  });

  it('gets 431 where it has too many header fields, however small, and is its connection\u2019s last', async () => {
    const fields = (count: number) => Array<string>(count).fill('a:');
    // Host is one.
    const most = request('GET /health/live', fields(new HttpLimits().headerFields - 1));
    expect((await exchange(service.port, most)).status).toBe(200);
    for (const count of [new HttpLimits().headerFields, 8_000]) {
      const bytes = request('POST /v1/pets', fields(count), '{}');
      expectError(await lastAnswer(bytes), 431, 'headers_too_large');
    }
  });

  it('is taken up to the limit of its headers, and no further', async () => {
    const path = '/health/live';
    const fields = [
      ['Host', 'a'],
      ['Connection', 'close'],
    ];
    const counted = path.length + fields.flat().join('').length + 'X'.length;
    const withHeaderBytes = (bytes: number) => {
      const all = [...fields, ['X', 'x'.repeat(bytes - counted)]];
      const lines = all.map(([name, value]) => `${name}: ${value}\r\n`);
      return exchange(service.port, `GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
    };
    expect((await withHeaderBytes(new HttpLimits().headerBytes)).status).toBe(200);
    expectError(await withHeaderBytes(new HttpLimits().headerBytes + 1), 431, 'headers_too_large');
  });

  it.each([
    ['no Host', 'GET /v1/pets HTTP/1.1\r\n\r\n'],
    ['two Hosts', 'GET /v1/pets HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'],
    ['the same Host twice', 'GET /v1/pets HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n'],
    ['a Host with a space', 'GET /v1/pets HTTP/1.1\r\nHost: a b\r\n\r\n'],
    ['an empty Host and another', 'GET /v1/pets HTTP/1.1\r\nHost:\r\nHost: a\r\n\r\n'],
    ['a Host that is a path', 'GET /v1/pets HTTP/1.1\r\nHost: a/b@<x>\r\n\r\n'],
    ['a Host with a tab', 'GET /v1/pets HTTP/1.1\r\nHost: a\tb\r\n\r\n'],
    ['a later version', 'GET /v1/pets HTTP/2.0\r\nHost: a\r\n\r\n'],
    ['an earlier version', 'GET /v1/pets HTTP/0.9\r\nHost: a\r\n\r\n'],
  ])('gets 400: %s', async (_title, bytes) => {
    expectError(await exchange(service.port, bytes), 400, 'invalid_request');
  });

  describe('gets 400 where its body is cut short', () => {
    it.each([
      ['a body under its length', ['Content-Length: 100'], '{"name":'],
      ['a body not begun', ['Content-Length: 100'], ''],
      ['a chunk under its size', ['Transfer-Encoding: chunked'], '64\r\n{"na'],
      ['chunks without the last', ['Transfer-Encoding: chunked'], '2\r\n{}\r\n'],
    ])('%s', async (_title, headers, body) => {
      const connection = await RawConnection.open(service.port);
      connection.send(post(headers, body));
      connection.halfClose();
      expectError(await connection.answer(), 400, 'invalid_request');
      expect(await connection.rest()).toBe('');
    });
  });

  it('gets 400 where its headers are cut short', async () => {
    const connection = await RawConnection.open(service.port);
    connection.send('GET /v1/pets HTTP/1.1\r\nHost: te');
    connection.halfClose();
    expectError(await connection.answer(), 400, 'invalid_request');
    expect(await connection.rest()).toBe('');
  });
});
