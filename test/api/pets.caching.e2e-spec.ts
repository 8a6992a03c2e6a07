import { send, type Message } from '../support/send.js';
import { startService, type TestService } from '../support/service.js';

const JSON_TYPE = { 'Content-Type': 'application/json' };

describe('caching', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
    await service.query(`insert into pets (id, name, category_id) values (-1, 'Rex', 1)`);
  });
  afterAll(() => service.stop());

  it.each<[number, Message]>([
    [200, { method: 'GET' }],
    [200, { method: 'GET', headers: { 'If-None-Match': '*' } }],
    [200, { method: 'GET', headers: { 'If-Modified-Since': 'Fri, 31 Dec 2100 00:00:00 GMT' } }],
    [200, { method: 'HEAD' }],
    [400, { method: 'GET', path: '/v1/pets?limit=0' }],
    [401, { method: 'GET', headers: { Authorization: '' } }],
    [200, { method: 'GET', path: '/v1/pets/-1' }],
    [404, { method: 'GET', path: '/v1/pets/0' }],
    [201, { headers: JSON_TYPE, body: '{"name":"a","categoryId":1}' }],
    [400, { headers: JSON_TYPE, body: '{' }],
    [413, { headers: JSON_TYPE, body: ' '.repeat(16_385) }],
    [415, { headers: { 'Content-Type': 'text/plain' }, body: 'x' }],
    [404, { method: 'GET', path: '/v1/dogs' }],
    [405, { method: 'DELETE' }],
    [204, { method: 'OPTIONS' }],
  ])('keeps the answer %s to %j out of caches, without an ETag', async (status, message) => {
    const answer = await send(service, message);
    expect(answer.status).toBe(status);
    expect(answer.headers['cache-control']).toBe('no-store');
    expect(answer.headers).not.toHaveProperty('etag');
    expect(answer.headers).not.toHaveProperty('last-modified');
  });
});
