import { createHook } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { type Answer, exchange, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

const PAGE = 'https://app.example';
/** Headers that no list of this service names. */
const UNHEARD_OF = 'authorization,x-tracer-7,unheard-of';
const PREFLIGHT = {
  'access-control-allow-methods': 'GET,HEAD,PUT,PATCH,POST,DELETE',
  'access-control-allow-headers': UNHEARD_OF,
  'access-control-max-age': '7200',
};
const JSON_TYPE = 'Content-Type: application/json';

/** Requests to all that can answer; KEY stands for a valid key. */
const REQUESTS = [
  [200, 'GET /v1/pets', ['KEY'], undefined],
  [201, 'POST /v1/pets', ['KEY', JSON_TYPE], '{"name":"Rex","categoryId":1}'],
  [200, 'GET /health/live', [], undefined],
  [401, 'GET /v1/pets', [], undefined],
  [405, 'PUT /v1/pets', [], undefined],
  [413, 'POST /v1/pets', ['KEY', JSON_TYPE], 'x'.repeat(20_000)],
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
  const send = (line: string, headers: readonly string[], body?: string) => {
    const key = `Authorization: Bearer ${service.key}`;
    const all = headers.map((header) => (header === 'KEY' ? key : header));
    return exchange(service.port, request(line, all, body));
  };
  const preflight = (origin: string) =>
    send('OPTIONS /v1/pets', [
      `Origin: ${origin}`,
      'Access-Control-Request-Method: POST',
      `Access-Control-Request-Headers: ${UNHEARD_OF}`,
    ]);

  const allowed = origins && {
    'access-control-allow-origin': origins === '*' ? '*' : PAGE,
    // All of them: no request of a page has credentials of the browser.
    'access-control-expose-headers': '*',
  };
  /** What a shared cache must tell apart. */
  const varies = (...others: string[]) => [
    ...(origins === undefined || origins === '*' ? [] : ['Origin']),
    ...others,
  ];

  it.each(REQUESTS)(
    '%i to %s is JSON whatever Accept says, and has the headers of every response and those for pages',
    async (status, line, headers, body) => {
      for (const accept of ['text/html', 'application/xml, */*;q=0', 'x;;', '']) {
        const answer = await send(line, [...headers, `Origin: ${PAGE}`, `Accept: ${accept}`], body);
        expect(answer.status).toBe(status);
        expect(answer.headers).toMatchObject({
          'content-type': 'application/json; charset=utf-8',
          'content-length': `${Buffer.byteLength(answer.text)}`,
          'cache-control': 'no-store',
          'x-content-type-options': 'nosniff',
          date: expect.any(String),
        });
        const isHandled = !headers.includes('Host: another' as never);
        expect(corsHeaders(answer)).toEqual({
          ...allowed,
          // What is no well-formed request gets the same response on all pages.
          ...(origins && !isHandled && { 'access-control-allow-origin': '*' }),
          ...(isHandled && varies().length > 0 && { vary: varies().join() }),
        });
        expect(Object.keys(answer.headers).join()).not.toMatch(
          /powered|server|etag|last-modified|set-cookie/,
        );
      }
    },
  );

  it('answers a preflight as any OPTIONS, without a key', async () => {
    const answer = await preflight(PAGE);
    expect(answer).toMatchObject({ status: 204, headers: { allow: 'GET, HEAD, OPTIONS, POST' } });
    const vary = varies('Access-Control-Request-Headers').join(', ');
    expect(corsHeaders(answer)).toEqual(
      origins === undefined ? {} : { ...allowed, ...PREFLIGHT, vary },
    );
  });

  it.each(['/docs', '/docs/guides/errors', '/openapi.json'])(
    'has all that %s varies by, so that no shared cache serves it to a wrong origin',
    async (path) => {
      const { headers } = await send(`GET ${path}`, [`Origin: ${PAGE}`]);
      expect(headers['vary']).toBe(varies('Accept-Encoding').join(', '));
    },
  );

  it.each(['https://elsewhere.example', 'http://app.example', `${PAGE}.elsewhere`, 'null'])(
    'lets in %j only if all origins are',
    async (origin) => {
      const list = await send('GET /v1/pets', ['KEY', `Origin: ${origin}`]);
      for (const { headers } of [list, await preflight(origin)]) {
        expect(headers['access-control-allow-origin']).toBe(origins === '*' ? '*' : undefined);
      }
    },
  );
});

describe('static content', () => {
  const service = serviceOfTests();
  const ask = (line: string, ...headers: string[]) =>
    exchange(service.port, request(line, headers));

  it.each(['/docs/assets/swagger-ui-bundle.js', '/docs', '/openapi.json'])(
    'is gzipped for who accepts it, has an ETag of its bytes, and is not sent again to who has them: %s',
    async (path) => {
      const { headers, text } = await ask(`GET ${path}`);
      const etag = `W/"${createHash('sha1').update(text).digest('base64url')}"`;
      expect(headers).not.toHaveProperty('content-encoding');
      expect(headers).toMatchObject({ vary: 'Accept-Encoding', etag });
      const zipped = await fetch(service.origin + path);
      expect(zipped.headers.get('content-encoding')).toBe('gzip');
      expect(await zipped.text()).toBe(text);
      for (const accepted of ['identity', 'gzip']) {
        const same = { 'Accept-Encoding': accepted, 'If-None-Match': etag };
        for (const method of ['get', 'head'] as const) {
          expect((await service.anonymous[method](path).set(same)).status).toBe(304);
        }
      }
    },
  );

  it.each(['/docs', '/docs/guides/web-pages'])(
    'has for each file that %s loads a URL with a hash of its content, whose response never changes',
    async (path) => {
      const { text } = await ask(`GET ${path}`);
      const assets = [...text.matchAll(/"[./]+(\/docs\/assets\/[\w.-]+)(\?[^"]*)?"/g)];
      expect(assets.length).toBeGreaterThanOrEqual(4);
      for (const [, asset, query] of assets) {
        const answer = await ask(`GET ${asset}${query}`);
        expect(query).toBe(`?v=${createHash('sha1').update(answer.text).digest('base64url')}`);
        expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable');
        // Of a page of another version, which must not keep this one's content.
        const other = await ask(`GET ${asset}?v=${'A'.repeat(27)}`);
        expect(other.headers['cache-control']).toBe('no-cache');
      }
    },
  );

  it('is compressed once, however many clients ask for it', async () => {
    const made: string[] = [];
    const hook = createHook({ init: (_id, type) => void made.push(type) }).enable();
    const compressions = () => made.filter((type) => type === 'ZLIB').length;
    try {
      gzipSync('');
      expect(compressions()).toBe(1);
      for (let n = 0; n < 3; n += 1) {
        const { headers } = await ask('GET /docs/assets/swagger-ui.css', 'Accept-Encoding: gzip');
        expect(headers['content-encoding']).toBe('gzip');
      }
      expect(compressions()).toBeLessThanOrEqual(2);
    } finally {
      hook.disable();
    }
  });

  it.each(['gzip;q=0', 'identity', 'br', 'gzip;q=0.1, identity'])(
    'is sent as it is to who prefers that: %j',
    async (accepted) => {
      const { status, headers } = await ask('GET /openapi.yaml', `Accept-Encoding: ${accepted}`);
      expect([status, headers['content-encoding']]).toEqual([200, undefined]);
    },
  );

  it.each([
    ['/docs/assets/docs.css', 'text/css', 'no-cache'],
    ['/docs/assets/swagger-ui.css?v=1', 'text/css', 'no-cache'],
    ['/docs/assets/reference.js?v=', 'text/javascript', 'no-cache'],
    ['/docs', 'text/html', 'no-cache'],
    ['/docs/guides/errors', 'text/html', 'no-cache'],
    ['/openapi.json', 'application/json', 'no-store'],
    ['/openapi.yaml', 'application/yaml', 'no-store'],
  ])('has its type, and after an upgrade is new at once: %s', async (path, type, caching) => {
    for (const method of ['GET', 'HEAD']) {
      const { headers } = await ask(`${method} ${path}`);
      expect(headers['content-type']).toBe(`${type}; charset=utf-8`);
      expect([headers['cache-control'], headers['expires']]).toEqual([caching, undefined]);
      expect(headers).not.toHaveProperty('last-modified');
    }
  });
});
