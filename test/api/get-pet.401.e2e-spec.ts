import { expectError } from '../support/answers.js';
import { startService, type TestService } from '../support/service.js';

describe('getPet 401', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
    await service.query(`insert into pets (id, name, category_id) values (1, 'Rex', 1)`);
  });
  afterAll(() => service.stop());

  it.each(['1', '2', 'x', '%ff'])(
    'refuses a request without a key, whether there is an animal or not: %s',
    async (petId) => {
      const answer = await service.anonymous.get(`/v1/pets/${petId}`);
      expectError(answer, 401, 'missing_api_key');
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="animal-store"');
    },
  );

  it.each(['1', '2', 'x'])(
    'refuses an invalid key, whether there is an animal or not: %s',
    async (petId) => {
      const answer = await service.anonymous
        .get(`/v1/pets/${petId}`)
        .set('Authorization', 'Bearer x');
      expectError(answer, 401, 'invalid_api_key');
      expect(answer.headers['www-authenticate']).toBe(
        'Bearer realm="animal-store", error="invalid_token"',
      );
    },
  );
});
