import { serviceOfTests, startService } from '../support/service.js';

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

describe('GET /', () => {
  const service = serviceOfTests();

  it.each([undefined, '*/*', 'application/json', 'application/json, text/html;q=0.9', 'image/png'])(
    'tells a program, whose Accept is %s, where things are',
    async (accept) => {
      const request = service.anonymous.get('/');
      const answer = await (accept === undefined ? request : request.set('Accept', accept));
      expect(answer.status).toBe(200);
      expect(answer.headers).toMatchObject({
        'content-type': 'application/json; charset=utf-8',
        vary: 'Accept',
      });
      expect(answer.body).toEqual({
        name: 'Animal Store Service',
        version: '1.0.0',
        pets: '/v1/pets',
        openapi: '/openapi.json',
        docs: '/docs',
        health: { live: '/health/live', ready: '/health/ready' },
      });
    },
  );

  it.each([BROWSER, 'text/html', 'text/html, application/json;q=0.9'])(
    'sends a person, whose Accept is %s, to the reference page',
    async (accept) => {
      const answer = await service.anonymous.get('/').set('Accept', accept);
      expect(answer.status).toBe(303);
      expect(answer.headers).toMatchObject({ location: './docs', vary: 'Accept' });
    },
  );

  it('names only what is there', async () => {
    const { body } = await service.api.get('/');
    for (const path of [body.pets, body.openapi, body.docs, ...Object.values(body.health)]) {
      await service.api.get(path as string).expect(200);
    }
  });

  it('has absolute addresses where the public base address is known', async () => {
    const other = await startService({ PUBLIC_BASE_URL: 'https://animals.example/store/v1' });
    const { body } = await other.anonymous.get('/').expect(200);
    await other.stop();
    expect(body).toMatchObject({
      pets: 'https://animals.example/store/v1/pets',
      docs: 'https://animals.example/store/docs',
      health: { live: 'https://animals.example/store/health/live' },
    });
  });

  it('sends nobody to a page that is switched off', async () => {
    const other = await startService({ DOCS: 'off' });
    const answer = await other.anonymous.get('/').set('Accept', BROWSER).expect(200);
    await other.stop();
    expect(answer.body).toHaveProperty('pets');
    expect(answer.body).not.toHaveProperty('docs');
  });
});
