import { gzipSync } from 'node:zlib';
import { newApiKey } from '../../src/api-key.js';
import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, request } from '../support/raw-http.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('the headers of an answer', () => {
  const service = serviceOfTests();

  const send = (line: string, headers: string[] = [], body?: string) =>
    exchange(
      service.port,
      request(line, [`Authorization: Bearer ${service.key}`, ...headers], body),
    );

  const idOf = async (...ids: string[]) => {
    const answer = await send(
      'GET /v1/pets',
      ids.map((id) => `X-Request-Id: ${id}`),
    );
    expect(answer.status).toBe(200);
    return answer.headers['x-request-id'];
  };

  const json = 'Content-Type: application/json';

  describe.each([
    [200, 'GET /v1/pets', [], undefined],
    [201, 'POST /v1/pets', [json], '{"name":"Rex","categoryId":1}'],
    [400, 'POST /v1/pets', [json], '{'],
    [200, 'GET /v1/store/orders', [], undefined],
    [400, 'GET /v1/pets?limit=0', [], undefined],
    [401, 'GET /v1/pets', ['Authorization: x'], undefined],
    [404, 'GET /v1/pets/0', [], undefined],
    [404, 'GET /nowhere', [], undefined],
    [405, 'PUT /v1/pets', [], undefined],
    [413, 'POST /v1/pets', [json], 'x'.repeat(20_000)],
    [415, 'POST /v1/pets', ['Content-Type: text/plain'], 'x'],
    [200, 'GET /health/live', [], undefined],
  ] as const)('%i to %s', (status, line, headers, body) => {
    it('are those of every answer, and tell nothing of the software', async () => {
      const answer = await send(line, [...headers], body);
      expect(answer.status).toBe(status);
      expect(answer.headers).toMatchObject({
        'content-type': 'application/json; charset=utf-8',
        'content-length': `${Buffer.byteLength(answer.text)}`,
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'x-request-id': expect.stringMatching(UUID),
        date: expect.any(String),
      });
      expect(Object.keys(answer.headers).join()).not.toMatch(
        /powered|server|etag|last-modified|set-cookie|vary/,
      );
    });

    it('return the X-Request-Id that came', async () => {
      const answer = await send(line, [...headers, 'X-Request-Id: abc-123'], body);
      expect(answer.headers['x-request-id']).toBe('abc-123');
    });

    it.each(['text/html', 'application/xml, */*;q=0', 'application/json;version=2', 'x;;', ''])(
      'name JSON although Accept is %j',
      async (accept) => {
        const answer = await send(line, [...headers, `Accept: ${accept}`], body);
        expect(answer.status).toBe(status);
        expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
      },
    );
  });

  it('are those of every answer also where there is no body', async () => {
    const { status, headers } = await send('OPTIONS /v1/pets', ['X-Request-Id: abc']);
    expect({ status, ...headers }).toMatchObject({
      status: 204,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'x-request-id': 'abc',
    });
  });

  it.each(['a', '0', 'x'.repeat(128), 'A-Z_a.z~0:9/+=@', '1bc29b36-f623-4ba2-8a5e-1d4c2f2f7b1d'])(
    'return X-Request-Id %s',
    async (id) => expect(await idOf(id)).toBe(id),
  );

  it.each<[string, (key: string) => string[]]>([
    ['that holds a key', (key) => [`id-${key}`]],
    ['that holds a key in capitals', (key) => [key.toUpperCase()]],
    ['that holds the secret of its key alone', (key) => [key.replace('animalstore_', '')]],
    ['that is another API key', () => [newApiKey()]],
    ['with another API key', () => [`id=${newApiKey()}`]],
    ['empty', () => ['']],
    ['of 129 characters', () => ['x'.repeat(129)]],
    ['with a space', () => ['a b']],
    ['with a quotation mark', () => ['a"b']],
    ['with a brace', () => ['{}']],
    ['with a tab', () => ['a\tb']],
    ['with bytes beyond ASCII', () => ['\xe9']],
    ['sent twice', () => ['a', 'b']],
  ])('replace an X-Request-Id %s', async (_title, idsOf) =>
    expect(await idOf(...idsOf(service.key))).toMatch(UUID),
  );

  it('hold a new X-Request-Id for each request', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => idOf()));
    expect(new Set(ids).size).toBe(20);
  });

  it.each(['gzip', 'GZIP', 'deflate', 'br', 'identity, gzip', 'x'])(
    'say which content coding would do where a body came as %s',
    async (coding) => {
      const body = gzipSync('{"name":"Rex","categoryId":1}').toString('latin1');
      const answer = await send('POST /v1/pets', [json, `Content-Encoding: ${coding}`], body);
      expectError(answer, 415, 'unsupported_media_type');
      expect(answer.headers['accept-encoding']).toBe('identity');
    },
  );
});
