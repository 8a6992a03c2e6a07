import { type Answer, expectError } from '../support/answers.js';
import { serviceOfTests, type TestService } from '../support/service.js';

describe('a fault of the service', () => {
  const service = serviceOfTests();
  beforeAll(async () => {
    await service.query('alter table pets rename to secret_pets');
    await service.query('alter table orders rename to secret_orders');
  });

  it.each<[string, string, (service: TestService) => Promise<Answer>]>([
    ['listPets', 'pets', async ({ api }) => api.get('/v1/pets')],
    [
      'createPet',
      'pets',
      async ({ api }) => api.post('/v1/pets').send({ name: 'a', categoryId: 1 }),
    ],
    ['getPet', 'pets', async ({ api }) => api.get('/v1/pets/1')],
    ['listOrders', 'orders', async ({ api }) => api.get('/v1/store/orders')],
  ])('is told by %s in the same words, its cause only to the log', async (_name, table, ask) => {
    service.log.length = 0;
    const answer = await ask(service);
    expectError(answer, 500, 'internal_error');
    expect(JSON.parse(answer.text).message).toBe('The service failed; the fault is ours.');
    expect(service.log.join('')).toContain(`relation \\"${table}\\" does not exist`);
  });
});
