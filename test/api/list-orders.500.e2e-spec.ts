import { expectError } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

describe('listOrders 500', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
    await service.query('alter table orders rename to secret_name');
  });
  afterAll(() => service.stop());

  it('tells a fault of the service in the same words as any, its cause only to the log', async () => {
    const answer = await service.api.get('/v1/store/orders');
    expectError(answer, 500, 'internal_error');
    expect(answer.body.message).toBe('The service failed; the fault is ours.');
    expect(service.log.join('')).toContain('relation \\"orders\\" does not exist');
  });
});
