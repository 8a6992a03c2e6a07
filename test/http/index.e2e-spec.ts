import { serviceOfTests, startService } from '../support/service.js';

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

describe('GET /', () => {
  const service = serviceOfTests();

  /** @returns the response to a request of a browser, and the index of such a service. */
  async function indexOf(variables: Record<string, string>) {
    const other = await startService(variables);
    const browser = await other.anonymous.get('/').set('Accept', BROWSER);
    const { body } = await other.anonymous.get('/').expect(200);
    await other.stop();
    return { browser, body };
  }

  it.each([undefined, '*/*', 'application/json', 'application/json, text/html;q=0.9', 'image/png'])(
    'tells a program, whose Accept is %s, where things are',
    async (accept) => {
      const request = service.anonymous.get('/').expect('Vary', 'Accept');
      const answer = await (accept === undefined ? request : request.set('Accept', accept));
      expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
      expect([answer.status, answer.body]).toEqual([
        200,
        {
          name: 'Animal Store Service',
          version: '1.0.0',
          pets: '/v1/pets',
          openapi: '/openapi.json',
          docs: '/docs',
          health: { live: '/health/live', ready: '/health/ready' },
        },
      ]);
    },
  );

  it.each([BROWSER, 'text/html', 'text/html, application/json;q=0.9'])(
    'sends a person, whose Accept is %s, to the reference page',
    async (accept) => {
      const { status, headers } = await service.anonymous.get('/').set('Accept', accept);
      expect([status, headers['location'], headers['vary']]).toEqual([303, './docs', 'Accept']);
    },
  );

  it('names only what is there', async () => {
    const { body } = await service.api.get('/');
    for (const path of [body.pets, body.openapi, body.docs, ...Object.values(body.health)]) {
      await service.api.get(path as string).expect(200);
    }
  });

  it('has absolute addresses where the public base address is known', async () => {
    const { body } = await indexOf({ PUBLIC_BASE_URL: 'https://animals.example/store/v1' });
    expect(body).toMatchObject({
      pets: 'https://animals.example/store/v1/pets',
      docs: 'https://animals.example/store/docs',
      health: { live: 'https://animals.example/store/health/live' },
    });
  });

  it('sends nobody to a page that is switched off', async () => {
    const { browser, body } = await indexOf({ DOCS: 'off' });
    expect([browser.status, browser.body]).toEqual([200, body]);
    expect(body).toHaveProperty('pets');
    expect(body).not.toHaveProperty('docs');
  });
});
