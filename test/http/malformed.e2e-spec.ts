import { HttpLimits } from '../../src/http/limits.js';
import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, RawConnection, request } from '../support/raw-http.js';

const { headerBytes, headerFields } = new HttpLimits();

describe('a request that is not well-formed HTTP', () => {
  const service = serviceOfTests();
  afterEach(() => service.api.get('/v1/pets').expect(200));

  const JSON_TYPE = 'Content-Type: application/json';
  const CHUNKED = 'Transfer-Encoding: chunked';
  const HOST = 'Host: test\r\n\r\n';

  /** A createPet with these header lines and these bytes for a body. */
  const post = (headers: string[], body: string) => {
    const all = [`Authorization: Bearer ${service.key}`, JSON_TYPE, ...headers];
    return request('POST /v1/pets', all) + body;
  };

  /** @returns the one answer, after which the service ends the connection. */
  async function lastAnswer(bytes: string | Buffer, isHalfClosed = false) {
    const connection = await RawConnection.open(service.port);
    connection.send(bytes);
    if (isHalfClosed) {
      connection.halfClose();
    }
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

  it.each<[string, () => string | Buffer]>([
    ['garbage', () => 'hello\r\n\r\n'],
    ['bytes', () => Buffer.from([0, 1, 2, 255, 13, 10, 13, 10])],
    ['a TLS greeting', () => Buffer.from('1603010200010001fc0303', 'hex')],
    ['an HTTP/2 preface', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['version 3', () => `GET /v1/pets HTTP/3.0\r\n${HOST}`],
    ['no target', () => `GET HTTP/1.1\r\n${HOST}`],
    ['a space in the target', () => `GET /v1 pets HTTP/1.1\r\n${HOST}`],
    ['a control character in the target', () => `GET /v1/\x01 HTTP/1.1\r\n${HOST}`],
    ['an unknown method', () => `FOO /v1/pets HTTP/1.1\r\n${HOST}`],
    ['a header without a name', () => `GET /v1/pets HTTP/1.1\r\n: y\r\n${HOST}`],
    ['NUL in a header', () => `GET /v1/pets HTTP/1.1\r\nX: \x00\r\n${HOST}`],
    ['a bare CR in a header', () => `GET /v1/pets HTTP/1.1\r\nX: a\rb\r\n${HOST}`],
    ['a Content-Length that is no number', () => post(['Content-Length: abc'], '{}')],
    ['a Content-Length over 64 bits', () => post(['Content-Length: 99999999999999999999'], '{}')],
    ['a list of Content-Lengths', () => post(['Content-Length: 2, 2'], '{}')],
    ['two Content-Lengths', () => post(['Content-Length: 2\r\nContent-Length: 2'], '{}')],
    ['a Content-Length beside chunks', () => post([`Content-Length: 2\r\n${CHUNKED}`], '{}')],
    ['a chunk size that is no number', () => post([CHUNKED], 'zz\r\n')],
    ['a chunk longer than its size', () => post([CHUNKED], '1\r\n{}\r\n0\r\n\r\n')],
    ['gzip, whose end is unknown', () => post(['Transfer-Encoding: gzip'], '0\r\n\r\n')],
    ['gzip of chunks', () => post(['Transfer-Encoding: chunked, gzip'], '0\r\n\r\n')],
  ])('gets 400 and its connection is closed: %s', async (_title, bytes) =>
    expectError(await lastAnswer(bytes()), 400, 'invalid_request'),
  );

  it.each([
    ['the request line', `GET /v1/pets HTTP/1.1\n${HOST}`],
    ['every line', 'GET /v1/pets HTTP/1.1\nHost: test\n\n'],
    ['a header', 'GET /v1/pets HTTP/1.1\r\nHost: test\n\r\n'],
  ])('is told to end lines with CR LF if LF alone ends %s', async (_title, bytes) =>
    expectError(await lastAnswer(bytes), 400, 'invalid_request', ['CR LF']),
  );

  it.each<[string, () => string]>([
    ['a body under its length', () => post(['Content-Length: 100'], '{"name":')],
    ['a body not begun', () => post(['Content-Length: 100'], '')],
    ['a chunk under its size', () => post([CHUNKED], '64\r\n{"na')],
    ['chunks without the last', () => post([CHUNKED], '2\r\n{}\r\n')],
    ['headers', () => 'GET /v1/pets HTTP/1.1\r\nHost: te'],
  ])('gets 400 if it is cut short: %s', async (_title, bytes) =>
    expectError(await lastAnswer(bytes(), true), 400, 'invalid_request'),
  );

  it.each([
    ['no Host', ''],
    ['two Hosts', 'Host: a\r\nHost: b\r\n'],
    ['the same Host twice', 'Host: a\r\nhost: a\r\n'],
    ['a Host with a space', 'Host: a b\r\n'],
    ['an empty Host and another', 'Host:\r\nHost: a\r\n'],
    ['a Host that is a path', 'Host: a/b@<x>\r\n'],
    ['a Host with a tab', 'Host: a\tb\r\n'],
    ['a later version', 'Host: a\r\n', '2.0'],
    ['an earlier version', 'Host: a\r\n', '0.9'],
  ])('gets 400: %s', async (_title, headers, version = '1.1') => {
    const bytes = `GET /v1/pets HTTP/${version}\r\n${headers}\r\n`;
    expectError(await exchange(service.port, bytes), 400, 'invalid_request');
  });

  describe.each([
    ['in one packet', false],
    ['after its headers', true],
  ])(
    'with a malformed body, %s, is answered as without one where none is read',
    (_title, isApart) => {
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
        ['POST /v1/pets', () => [KEY(), JSON_TYPE], 400],
      ])('%s %#', async (line, headers, status) => {
        const connection = await RawConnection.open(service.port);
        const head = request(line, [...headers(), CHUNKED]);
        connection.send(isApart ? head : `${head}zz\r\n`);
        if (isApart) {
          await service.anonymous.get('/health/live');
          connection.send('zz\r\n');
        }
        expect((await connection.answer(line.split(' ')[0])).status).toBe(status);
        connection.send('zz\r\n');
        expect(await connection.rest()).toBe('');
      });
    },
  );

  it('gets 413 for chunk extensions without end', async () => {
    const body = `2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`;
    expectError(await lastAnswer(post([CHUNKED], body)), 413, 'payload_too_large');
  });

  it.each([
    ['one long header', (size: number) => request('GET /', [`X: ${'x'.repeat(size)}`])],
    ['a long name', (size: number) => request('GET /', [`${'X'.repeat(size)}: x`])],
    ['many', (size: number) => request('GET /', Array(100).fill(`X: ${'x'.repeat(size / 100)}`))],
    ['a long target', (size: number) => request(`GET /${'x'.repeat(size)}`)],
  ])('gets 431 and its connection is closed: %s', async (_title, bytesOf) => {
    for (const times of [1, 4]) {
      const bytes = bytesOf(times * headerBytes);
      expectError(await lastAnswer(bytes), 431, 'headers_too_large');
    }
  });

  it.each([
    ['sent at once', 1],
    ['sent bit by bit', 50],
  ])('gets its 431, far over the limit and %s', async (_title, pieces) => {
    const connection = await RawConnection.open(service.port);
    connection.send('GET /v1/pets HTTP/1.1\r\nX: ');
    for (let i = 0; i < pieces; i += 1) {
      connection.send('x'.repeat(500_000 / pieces));
    }
    expectError(await connection.answer(), 431, 'headers_too_large');
  });

  it('gets 431 where it has too many header fields, however small, and is its connection’s last', async () => {
    // Host is one.
    const bytes = (line: string, count: number, body?: string) =>
      request(line, Array<string>(count - 1).fill('a:'), body);
    const most = await exchange(service.port, bytes('GET /health/live', headerFields));
    expect(most.status).toBe(200);
    for (const count of [headerFields, 8_000]) {
      const answer = await lastAnswer(bytes('POST /v1/pets', count, '{}'));
      expectError(answer, 431, 'headers_too_large');
    }
  });

  it('is taken up to the limit of its headers, and no further', async () => {
    const counted = '/health/liveHosttestX'.length;
    const withHeaderBytes = (bytes: number) =>
      exchange(service.port, request('GET /health/live', [`X: ${'x'.repeat(bytes - counted)}`]));
    expect((await withHeaderBytes(headerBytes)).status).toBe(200);
    expectError(await withHeaderBytes(headerBytes + 1), 431, 'headers_too_large');
  });
});
