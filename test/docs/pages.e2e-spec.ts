import { expectError } from '../support/answers.js';
import { exchange, request } from '../support/raw-http.js';
import { serviceOfTests, startService } from '../support/service.js';

const PAGES = [
  '/docs',
  '/docs/guides/getting-started',
  '/docs/guides/authentication',
  '/docs/guides/pagination',
  '/docs/guides/errors',
  '/docs/guides/retries',
  '/docs/guides/deprecation',
];

describe('the pages', () => {
  const service = serviceOfTests();
  let assets: string[];
  beforeAll(async () => {
    const { text } = await service.anonymous.get('/docs');
    assets = [...text.matchAll(/"\.(\/docs\/assets\/[^"]+)"/g)].map(([, path]) => path!);
  });

  it.each(PAGES)(
    'need no key, and may load, send and embed nothing of others: %s',
    async (path) => {
      const { status, headers } = await exchange(service.port, request(`GET ${path}`));
      expect(status).toBe(200);
      expect(headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-request-id': expect.any(String),
      });
    },
  );

  it.each(PAGES)('link to each other: %s', async (path) => {
    const { text } = await service.anonymous.get(path);
    const linked = [...text.matchAll(/<a (?:class="home" )?href="([^"]+)"/g)].map(
      ([, target]) => new URL(target!, service.origin + path).pathname,
    );
    expect(linked).toEqual(expect.arrayContaining([...PAGES, '/openapi.json']));
  });

  it('are answered to HEAD as to GET, without the body', async () => {
    for (const path of ['/docs', '/docs/guides/errors', assets[0]!]) {
      const head = await service.anonymous.head(path).set('Accept-Encoding', 'identity');
      const get = await service.anonymous.get(path).set('Accept-Encoding', 'identity');
      expect(head.status).toBe(200);
      expect(head.headers['content-length']).toBe(get.headers['content-length']);
      expect(head.text).toBeUndefined();
    }
  });

  it.each([
    '/docs/',
    '/docs/index.html',
    '/docs/guides',
    '/docs/guides/',
    '/docs/guides/nothing',
    '/docs/guides/errors.md',
    '/docs/guides/..%2f..%2fREADME',
    '/docs/guides/constructor',
    '/docs/assets',
    '/docs/assets/0/docs.css',
    '/docs/assets/0123456789abcdef/swagger-ui-bundle.js',
    '/docs/assets/%2e%2e/%2e%2e',
    '/docs/swagger-ui-bundle.js',
    '/docs/package.json',
  ])('are no others: 404 to %s', async (path) => {
    expectError(await exchange(service.port, request(`GET ${path}`)), 404, 'route_not_found');
  });

  it.each([
    ['/docs/', '/docs'],
    ['/docs/guides', '/docs/guides/getting-started'],
    ['/docs/guides/', '/docs/guides/getting-started'],
  ])('are found by a browser that asks for %s, and by no program', async (path, page) => {
    const browser = await service.anonymous.get(path).set('Accept', 'text/html,*/*;q=0.8');
    expect(browser.status).toBe(303);
    expect(browser.headers['vary']).toBe('Accept');
    expect(new URL(browser.headers['location']!, `${service.origin}${path}`).pathname).toBe(page);
    for (const accept of ['*/*', 'application/json', 'image/png']) {
      const program = await service.anonymous.get(path).set('Accept', accept);
      expectError(program, 404, 'route_not_found');
      expect(program.headers['vary']).toBe('Accept');
    }
  });

  it('have the icon that a browser asks for by itself', async () => {
    const accept = 'image/avif,image/webp,image/svg+xml,image/*,*/*;q=0.8';
    const { status, headers } = await service.anonymous.get('/favicon.ico').set('Accept', accept);
    expect(status).toBe(303);
    const { pathname } = new URL(headers['location']!, service.origin);
    expect(assets).toContain(pathname);
  });

  it.each(['/docs', '/docs/guides/errors', '/docs/assets/0/docs.css'])(
    'are only read: 405 with Allow to POST %s',
    async (path) => {
      const answer = await exchange(service.port, request(`POST ${path}`));
      expectError(answer, 405, 'method_not_allowed');
      expect(answer.headers['allow']).toBe('GET, HEAD, OPTIONS');
    },
  );

  it('load files that browsers keep for good and that are sent compressed', async () => {
    expect(assets.length).toBeGreaterThanOrEqual(6);
    for (const path of assets) {
      const plain = await exchange(service.port, request(`GET ${path}`));
      // Decompressed by the client.
      const gzipped = await service.anonymous.get(path).set('Accept-Encoding', 'br, gzip').buffer();
      expect(plain.status).toBe(200);
      for (const { headers } of [plain, gzipped]) {
        expect(headers).toMatchObject({
          'cache-control': 'public, max-age=31536000, immutable',
          'content-type': expect.stringMatching(
            /^(text\/(css|javascript); charset=utf-8|image\/svg\+xml)$/,
          ),
          'x-content-type-options': 'nosniff',
          vary: 'Accept-Encoding',
        });
      }
      expect(plain.headers).not.toHaveProperty('content-encoding');
      expect(gzipped.headers['content-encoding']).toBe('gzip');
      expect(gzipped.text ?? gzipped.body.toString()).toBe(plain.text);
      expect(Number(gzipped.headers['content-length'])).toBeLessThan(plain.text.length);
    }
  });

  it('are gone, their files too, where DOCS is off', async () => {
    const other = await startService({ DOCS: 'off' });
    for (const path of [...PAGES, ...assets, '/docs/', '/docs/guides', '/favicon.ico']) {
      const answer = await other.anonymous.get(path).set('Accept', 'text/html,image/*');
      expectError(answer, 404, 'route_not_found');
    }
    await other.stop();
  });
});
