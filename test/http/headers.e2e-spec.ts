import { gzipSync } from 'node:zlib';
import { newApiKey } from '../../src/api-key.js';
import { expectError } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';
import { exchange, request } from '../support/raw-http.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const JSON_TYPE = 'Content-Type: application/json';

describe('the headers of a response', () => {
  const service = serviceOfTests();

  const send = (line: string, headers: string[] = [], body?: string) =>
    exchange(
      service.port,
      request(line, [`Authorization: Bearer ${service.key}`, ...headers], body),
    );

  const idOf = async (...ids: string[]) => {
    const headers = ids.map((id) => `X-Request-Id: ${id}`);
    const answer = await send('GET /v1/pets', headers);
    expect(answer.status).toBe(200);
    return answer.headers['x-request-id'];
  };

  it.each<[number, string, string[]?, string?]>([
    [200, 'GET /v1/pets'],
    [201, 'POST /v1/pets', [JSON_TYPE], '{"name":"Rex","categoryId":1}'],
    [400, 'POST /v1/pets', [JSON_TYPE], '{'],
    [401, 'GET /v1/pets', ['Authorization: x']],
    [404, 'GET /nowhere'],
    [405, 'PUT /v1/pets'],
    [413, 'POST /v1/pets', [JSON_TYPE], 'x'.repeat(20_000)],
    [200, 'GET /health/live'],
  ])(
    'are those of every response, JSON whatever Accept says, and tell nothing of the software: %i to %s',
    async (status, line, headers = [], body) => {
      for (const accept of ['text/html', 'application/xml, */*;q=0', 'x;;', '']) {
        const answer = await send(line, [...headers, `Accept: ${accept}`], body);
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
      }
    },
  );

  it.each(['a', 'x'.repeat(128), 'A-Z_a.z~0:9/+=@'])('return X-Request-Id %s', async (id) =>
    expect(await idOf(id)).toBe(id),
  );

  it.each<[string, (key: string) => string[]]>([
    ['that holds a key', (key) => [`id-${key}`]],
    ['that holds a key in capitals', (key) => [key.toUpperCase()]],
    ['that holds the secret of its key alone', (key) => [key.replace('animalstore_', '')]],
    ['with another API key', () => [`id=${newApiKey()}`]],
    ['of 129 characters', () => ['x'.repeat(129)]],
    ['with a space', () => ['a b']],
    ['with bytes beyond ASCII', () => ['\xe9']],
    ['sent twice', () => ['a', 'b']],
  ])('replace an X-Request-Id %s', async (_title, idsOf) =>
    expect(await idOf(...idsOf(service.key))).toMatch(UUID),
  );

  it('say which content coding would do if a body came with another', async () => {
    const body = gzipSync('{"name":"Rex","categoryId":1}').toString('latin1');
    const answer = await send('POST /v1/pets', [JSON_TYPE, 'Content-Encoding: gzip'], body);
    expectError(answer, 415, 'unsupported_media_type');
    expect(answer.headers['accept-encoding']).toBe('identity');
  });
});
