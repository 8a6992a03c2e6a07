import { expectError } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

describe('listOrders 401', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());

  it.each(['', '?limit=0&cursor=x'])(
    'refuses a request without a key before it looks at the query %j',
    async (query) => {
      const answer = await service.anonymous.get(`/v1/store/orders${query}`);
      expectError(answer, 401, 'missing_api_key');
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="animal-store"');
    },
  );

  it.each(['', '?limit=0&cursor=x'])(
    'refuses an invalid key before it looks at the query %j',
    async (query) => {
      const answer = await service.anonymous
        .get(`/v1/store/orders${query}`)
        .set('Authorization', 'Bearer x');
      expectError(answer, 401, 'invalid_api_key');
      expect(answer.headers['www-authenticate']).toBe(
        'Bearer realm="animal-store", error="invalid_token"',
      );
    },
  );
});
