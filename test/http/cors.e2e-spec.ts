import { expectError } from '../support/answers.js';
import { operations } from '../support/contract.js';
import { serviceOfTests } from '../support/service.js';
import { type Answer, exchange, request } from '../support/raw-http.js';

const PAGE = 'https://app.example';
const EXPOSED =
  'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id, Idempotent-Replayed, Allow, WWW-Authenticate';
const METHODS = [...new Set(['HEAD', ...operations().map(({ method }) => method)])]
  .toSorted()
  .join(', ');
const JSON_TYPE = 'Content-Type: application/json';
const CHUNKED = 'Transfer-Encoding: chunked';

/** Requests to all that can answer; KEY stands for a valid key. */
const REQUESTS = [
  [200, 'GET /v1/pets', ['KEY'], undefined],
  [201, 'POST /v1/pets', ['KEY', JSON_TYPE], '{"name":"Rex","categoryId":1}'],
  [200, 'GET /v1/pets/1', ['KEY'], undefined],
  [204, 'OPTIONS /v1/pets', [], undefined],
  [200, 'GET /health/live', [], undefined],
  [400, 'GET /v1/pets?limit=0', ['KEY'], undefined],
  [401, 'GET /v1/pets', [], undefined],
  [401, 'GET /v1/pets', ['Authorization: Bearer x'], undefined],
  [404, 'GET /v1/pets/0', ['KEY'], undefined],
  [404, 'GET /nowhere', [], undefined],
  [405, 'PUT /v1/pets', [], undefined],
  [413, 'POST /v1/pets', ['KEY', JSON_TYPE], 'x'.repeat(20_000)],
  [415, 'POST /v1/pets', ['KEY', 'Content-Type: text/plain'], 'x'],
  [400, 'POST /v1/pets', ['KEY', JSON_TYPE, CHUNKED], 'zz\r\n'],
  [400, 'GET /v1/pets', ['Host: another'], undefined],
] as const;

/** What of an answer is CORS, by name. */
const corsHeaders = ({ headers }: Answer) =>
  Object.fromEntries(
    Object.entries(headers).filter(([name]) => /^(access-control-.*|vary)$/.test(name)),
  );

describe.each([
  ['off', undefined],
  ['for named origins', `http://localhost:8080,${PAGE}`],
  ['for all origins', '*'],
])('CORS %s', (_title, origins) => {
  const service = serviceOfTests(origins === undefined ? {} : { CORS_ORIGINS: origins });
  beforeAll(async () => {
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
  });

  const send = (line: string, headers: readonly string[], body?: string) => {
    const key = `Authorization: Bearer ${service.key}`;
    const all = headers.map((header) => (header === 'KEY' ? key : header));
    const bytes = all.includes(CHUNKED) ? request(line, all) + body : request(line, all, body);
    return exchange(service.port, bytes);
  };

  const preflight = (path: string, origin: string) =>
    send(`OPTIONS ${path}`, [
      `Origin: ${origin}`,
      'Access-Control-Request-Method: POST',
      'Access-Control-Request-Headers: authorization,content-type',
    ]);

  const allowed =
    origins === undefined
      ? {}
      : {
          'access-control-allow-origin': origins === '*' ? '*' : PAGE,
          'access-control-expose-headers': EXPOSED,
          ...(origins === '*' ? {} : { vary: 'Origin' }),
        };

  it.each(REQUESTS)(
    'says of %i to %s what a page may read',
    async (status, line, headers, body) => {
      const answer = await send(line, [...headers, `Origin: ${PAGE}`], body);
      expect(answer.status).toBe(status);
      expect(corsHeaders(answer)).toEqual(allowed);
    },
  );

  it.each([
    ['Origin alone', [`Origin: ${PAGE}`]],
    ['Access-Control-Request-Method alone', ['Access-Control-Request-Method: POST']],
  ])('takes OPTIONS with %s for no preflight', async (_what, headers) => {
    const answer = await send('OPTIONS /v1/pets', headers);
    expect(answer).toMatchObject({ status: 204, headers: { allow: 'GET, HEAD, OPTIONS, POST' } });
    expect(answer.headers).not.toHaveProperty('access-control-allow-methods');
    expectError(await send('OPTIONS /nowhere', headers), 404, 'route_not_found');
  });

  if (origins === undefined) {
    it('takes a preflight for any OPTIONS', async () => {
      const answer = await preflight('/v1/pets', PAGE);
      expect(answer).toMatchObject({ status: 204, headers: { allow: 'GET, HEAD, OPTIONS, POST' } });
      expect(corsHeaders(answer)).toEqual({});
    });
    return;
  }

  it.each(['/v1/pets', '/v1/pets/1', '/health/live', '/nowhere'])(
    'answers a preflight for %s without a key',
    async (path) => {
      const answer = await preflight(path, PAGE);
      expect(answer.status).toBe(204);
      expect(answer.headers['allow'] !== undefined).toBe(path !== '/nowhere');
      expect(answer.headers).toMatchObject({
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'x-request-id': expect.any(String),
      });
      expect(corsHeaders(answer)).toEqual({
        ...allowed,
        'access-control-allow-methods': METHODS,
        'access-control-allow-headers':
          'Authorization, Content-Type, Idempotency-Key, X-Request-Id, traceparent',
        'access-control-max-age': '7200',
      });
      const line = JSON.parse(service.log.at(-1)!);
      expect(line).toMatchObject({ method: 'OPTIONS', status: 204 });
    },
  );

  if (origins === '*') {
    it.each(['https://elsewhere.example', 'null'])('lets in %s', async (origin) => {
      const answer = await send('GET /v1/pets', ['KEY', `Origin: ${origin}`]);
      expect(corsHeaders(answer)).toEqual(allowed);
      const { headers } = await preflight('/v1/pets', origin);
      expect(headers).toHaveProperty('access-control-allow-methods');
    });
    return;
  }

  it.each([
    'https://elsewhere.example',
    'http://app.example',
    'https://app.example:8443',
    'https://app.example.elsewhere.example',
    'https://elsewhere.example/https://app.example',
    'https://APP.example',
    'null',
    '*',
    `${PAGE}, ${PAGE}`,
    `${PAGE}\r\nOrigin: ${PAGE}`,
  ])('does not let in %j', async (origin) => {
    const answer = await send('GET /v1/pets', ['KEY', `Origin: ${origin}`]);
    expect(answer.status).toBe(200);
    expect(corsHeaders(answer)).toEqual({ vary: 'Origin' });
    const refused = await preflight('/v1/pets', origin);
    expect(refused).toMatchObject({ status: 204, headers: { allow: expect.any(String) } });
    expect(corsHeaders(refused)).toEqual({ vary: 'Origin' });
  });

  it('tells caches that answers differ by origin, without one too', async () => {
    expect(corsHeaders(await send('GET /v1/pets', ['KEY']))).toEqual({ vary: 'Origin' });
    expect(corsHeaders(await send('GET /', []))).toEqual({ vary: 'Origin, Accept' });
  });
});
