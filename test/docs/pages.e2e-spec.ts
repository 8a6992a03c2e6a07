import { expectError } from '../support/answers.js';
import { exchange, request } from '../support/raw-http.js';
import { GUIDES } from '../support/samples.js';
import { serviceOfTests, startService } from '../support/service.js';

const PAGES = ['/docs', ...GUIDES.map((guide) => `/docs/guides/${guide}`)];

describe('the pages', () => {
  const service = serviceOfTests();
  let assets: string[];
  beforeAll(async () => {
    const { text } = await service.anonymous.get('/docs');
    assets = [...text.matchAll(/"\.(\/docs\/assets\/[^"]+)"/g)].map(([, path]) => path!);
  });

  // test/http/methods has their methods.
  it.each(PAGES)(
    'need no key, load nothing of others, and link to each other: %s',
    async (path) => {
      const { headers, text } = await service.anonymous.get(path).expect(200);
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
      const linked = [...text.matchAll(/<a (?:class="home" )?href="([^"]+)"/g)].map(
        ([, target]) => new URL(target!, service.origin + path).pathname,
      );
      expect(linked).toEqual(expect.arrayContaining([...PAGES, '/openapi.json']));
    },
  );

  it.each([
    '/docs/',
    '/docs/index.html',
    '/docs/guides/nothing',
    '/docs/guides/errors.md',
    '/docs/guides/..%2f..%2fREADME',
    '/docs/assets/package.json',
    '/docs/assets/..%2f..%2fpackage.json',
    '/docs/assets/constructor',
    '/docs/swagger-ui-bundle.js',
  ])('are no others: 404 to %s', async (path) => {
    expectError(await exchange(service.port, request(`GET ${path}`)), 404, 'route_not_found');
  });

  it('load files that browsers may cache', async () => {
    expect(assets.length).toBeGreaterThanOrEqual(6);
    for (const path of assets) {
      const { headers } = await service.anonymous.get(path).expect(200);
      expect(headers).toMatchObject({
        'cache-control': 'public, max-age=3600',
        'content-type': expect.stringMatching(
          /^(text\/(css|javascript); charset=utf-8|image\/svg\+xml)$/,
        ),
        'x-content-type-options': 'nosniff',
      });
    }
  });

  it.each([
    ['https://pets.example/animals/v1', '/animals/docs'],
    ['https://pets.example/v1', './docs'],
  ])('are where / leads behind the prefix of %s', async (url, location) => {
    const other = await startService({ PUBLIC_BASE_URL: url });
    await other.anonymous.get('/').expect(303).expect('Location', location);
    await other.stop();
  });

  it('are gone, their files too, where DOCS is off, and / leads to the OpenAPI document', async () => {
    const other = await startService({ DOCS: 'off' });
    for (const path of [...PAGES, ...assets]) {
      expectError(await other.anonymous.get(path), 404, 'route_not_found');
    }
    await other.anonymous.get('/').expect(303).expect('Location', './openapi.json');
    await other.anonymous.get('/openapi.json').expect(200);
    await other.stop();
  });
});
