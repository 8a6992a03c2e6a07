import { Client } from 'pg';
import { HttpLimits } from '../../src/http/limits.js';
import { expectError } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

describe('listOrders, while the table is locked', () => {
  let service: TestService;
  let locker: Client;
  beforeAll(async () => {
    service = await startService();
    locker = new Client({ connectionString: service.databaseUrl });
    await locker.connect();
  });
  afterAll(async () => {
    await locker.end();
    await service.stop();
  });

  it('keeps no request waiting that needs other tables, however many wait for it', async () => {
    await locker.query('begin; lock table orders in access exclusive mode');
    let answered = 0;
    const orders = Array.from({ length: new HttpLimits().handled + 50 }, async () => {
      const answer = await service.api.get('/v1/store/orders');
      answered += 1;
      return answer;
    });
    await service.api.get('/v1/pets').expect(200);
    await service.api.post('/v1/pets').send({ name: 'Rex', categoryId: 1 }).expect(201);
    expect(answered).toBe(0);
    for (const answer of await Promise.all(orders)) {
      expectError(answer, 503, 'unavailable');
    }
    await locker.query('rollback');
    await service.api.get('/v1/store/orders').expect(200);
  });
});
