import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

describe('HEAD', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.query(
      `insert into pets (id, name, category_id) values (1, 'Rex', 1), (2, 'Ünï', 2)`,
    );
  });

  it.each([
    ['/v1/pets', 200, {}],
    ['/v1/pets?limit=0', 400, {}],
    ['/v1/pets', 401, { Authorization: 'Bearer x' }],
    ['/v1/pets/2', 200, {}],
    ['/v1/pets/3', 404, {}],
  ])('answers as GET without the body: %s %s %j', async (path, status, headers: object) => {
    const message = { path, headers: { ...headers, 'X-Request-Id': 'same' } };
    const get = await send(service, { ...message, method: 'GET' });
    const head = await send(service, { ...message, method: 'HEAD' });
    expect([get.status, head.status, head.text]).toEqual([status, status, '']);
    expect({ ...head.headers, date: '' }).toEqual({ ...get.headers, date: '' });
    expect(head.headers['content-length']).toBe(String(Buffer.byteLength(get.text)));
  });
});
