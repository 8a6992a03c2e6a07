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

  it.each<[string, () => string | Buffer, string[]?]>([
    ['garbage', () => 'hello\r\n\r\n'],
    ['a TLS greeting', () => Buffer.from('1603010200010001fc0303', 'hex')],
    ['an HTTP/2 preface', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['an unknown method', () => `FOO /v1/pets HTTP/1.1\r\n${HOST}`],
    ['a bare CR in a header', () => `GET /v1/pets HTTP/1.1\r\nX: a\rb\r\n${HOST}`],
    ['LF alone after the request line', () => `GET /v1/pets HTTP/1.1\n${HOST}`, ['CR LF']],
    ['LF alone after a header', () => 'GET /v1/pets HTTP/1.1\r\nHost: test\n\r\n', ['CR LF']],
    ['a Content-Length that is no number', () => post(['Content-Length: abc'], '{}')],
    ['two Content-Lengths', () => post(['Content-Length: 2\r\nContent-Length: 2'], '{}')],
    ['a Content-Length beside chunks', () => post([`Content-Length: 2\r\n${CHUNKED}`], '{}')],
    ['a chunk size that is no number', () => post([CHUNKED], 'zz\r\n')],
    ['a chunk longer than its size', () => post([CHUNKED], '1\r\n{}\r\n0\r\n\r\n')],
    ['gzip, whose end is unknown', () => post(['Transfer-Encoding: gzip'], '0\r\n\r\n')],
    ['gzip of chunks', () => post(['Transfer-Encoding: chunked, gzip'], '0\r\n\r\n')],
  ])('gets 400 and its connection is closed: %s', async (_title, bytes, words = []) =>
    expectError(await lastAnswer(bytes()), 400, 'invalid_request', words),
  );

  it.each<[string, () => string]>([
    ['a body', () => post(['Content-Length: 100'], '{"name":')],
    ['a chunk', () => post([CHUNKED], '64\r\n{"na')],
    ['chunks without the last', () => post([CHUNKED], '2\r\n{}\r\n')],
    ['headers', () => 'GET /v1/pets HTTP/1.1\r\nHost: te'],
  ])('gets 400 if it is cut short: %s', async (_title, bytes) =>
    expectError(await lastAnswer(bytes(), true), 400, 'invalid_request'),
  );

  it.each([
    ['no Host', ''],
    ['two Hosts', 'Host: a\r\nHost: b\r\n'],
    ['a Host with a space', 'Host: a b\r\n'],
    ['a Host that is a path', 'Host: a/b@<x>\r\n'],
    ...['[', '[::1', 'a:b:c', 'a:99999x', 'a%zz', 'a%4', '[::1]x', '[x]'].map((host) => [
      `the Host ${host}`,
      `Host: ${host}\r\n`,
    ]),
    ['two Hosts in HTTP/1.0', 'Host: a\r\nHost: a\r\n', '1.0'],
    ['an invalid Host in HTTP/1.0', 'Host: [\r\n', '1.0'],
    ['a later version', 'Host: a\r\n', '2.0'],
    ['an earlier version', 'Host: a\r\n', '0.9'],
  ])('gets 400: %s', async (_title, headers, version = '1.1') => {
    const bytes = `GET /v1/pets HTTP/${version}\r\n${headers}\r\n`;
    expectError(await exchange(service.port, bytes), 400, 'invalid_request');
  });

  it.each(['', 'a_b.c:80', 'a%20b', '[::1]:80', '[v1.x:y]', '127.0.0.1', "a!$&'()*+,;=~-b:"])(
    'is well-formed with the Host %j',
    async (host) => {
      const bytes = `GET /health/live HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
      expect((await exchange(service.port, bytes)).status).toBe(200);
    },
  );

  it.each([
    ['POST /v1/pets', '', 401],
    ['GET /v1/pets', 'KEY', 200],
    ['PUT /v1/pets', 'KEY', 405],
    ['OPTIONS /v1/pets', '', 204],
    ['POST /nowhere', 'KEY', 404],
    ['POST /v1/pets', 'KEY\r\nContent-Type: text/plain', 415],
    ['POST /v1/pets', `KEY\r\n${JSON_TYPE}`, 400],
  ])(
    'with a malformed body is answered as without one where none is read: %s %j',
    async (line, headers, status) => {
      const header = headers.replace('KEY', `Authorization: Bearer ${service.key}`);
      const head = request(line, [...(header ? [header] : []), CHUNKED]);
      for (const isApart of [false, true]) {
        const connection = await RawConnection.open(service.port);
        connection.send(isApart ? head : `${head}zz\r\n`);
        if (isApart) {
          await service.anonymous.get('/health/live');
          connection.send('zz\r\n');
        }
        expect((await connection.answer()).status).toBe(status);
        connection.send('zz\r\n');
        expect(await connection.rest()).toBe('');
      }
    },
  );

  it('gets 413 for chunk extensions without end', async () => {
    const body = `2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`;
    expectError(await lastAnswer(post([CHUNKED], body)), 413, 'payload_too_large');
  });

  it.each([
    ['one long header', [`X: ${'x'.repeat(headerBytes)}`]],
    ['many', Array<string>(100).fill(`X: ${'x'.repeat(headerBytes / 100)}`)],
    ['a long target', [], 'x'.repeat(headerBytes)],
    // Host is one more.
    ['too many fields, however small', Array<string>(headerFields).fill('a:')],
    ['far too many fields', Array<string>(8_000).fill('a:')],
  ])('gets 431 and its connection is closed: %s', async (_title, headers, target = '') => {
    const answer = await lastAnswer(request(`POST /${target}`, headers, '{}'));
    expectError(answer, 431, 'headers_too_large');
  });

  it('is accepted up to the limits of its headers, and no further', async () => {
    const counted = '/health/liveHosttestX'.length;
    const answerTo = (...headers: string[]) =>
      exchange(service.port, request('GET /health/live', headers));
    const longest = `X: ${'x'.repeat(headerBytes - counted)}`;
    expect((await answerTo(longest)).status).toBe(200);
    expectError(await answerTo(`${longest}x`), 431, 'headers_too_large');
    const most = Array<string>(headerFields - 1).fill('a:');
    expect((await answerTo(...most)).status).toBe(200);
  });
});
