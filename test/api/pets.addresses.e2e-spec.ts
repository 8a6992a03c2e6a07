import { nextPage } from '../support/answers.js';
import { serviceOfTests } from '../support/service.js';

describe.each([
  ['/v1', {}],
  ['http://example.org:8080/store/v1', { PUBLIC_BASE_URL: 'http://example.org:8080/store/v1' }],
])('addresses in responses start with %s', (base, variables: Record<string, string>) => {
  const service = serviceOfTests(variables);
  const elsewhere = { Host: 'elsewhere.example', 'X-Forwarded-Host': 'elsewhere.example' };

  it('in Location and in the Link to the next page, whatever Host says', async () => {
    for (const id of [1, 2]) {
      const pet = { name: 'Rex', categoryId: 1, status: 'sold' };
      const { headers } = await service.api.post('/v1/pets').set(elsewhere).send(pet).expect(201);
      expect(headers['location']).toBe(`${base}/pets/${id}`);
    }
    await service.query('insert into orders (pet_id) values (1), (2)');
    for (const path of ['/pets?limit=1&status=sold', '/store/orders?limit=1']) {
      const next = nextPage(await service.api.get(`/v1${path}`).set(elsewhere))!;
      expect(next).toMatch(`${base}${path}&cursor=`);
      const { body } = await service.api.get(next.replace(base, '/v1')).expect(200);
      expect(body).toMatchObject([{ id: 2 }]);
    }
  });
});
