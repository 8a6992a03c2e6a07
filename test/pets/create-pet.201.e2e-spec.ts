import { startService, type TestService } from '../service.js';

describe('createPet 201', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterAll(() => service.stop());

  it('answers with the pet and its address', async () => {
    const answer = await service.api
      .post('/v1/pets')
      .set('Content-Type', 'application/json')
      .send('{"name":"Rex","categoryId":9223372036854775807}')
      .expect(201);
    expect(answer.text).toMatch(
      /^\{"id":1,"name":"Rex","categoryId":9223372036854775807,"status":"available"\}$/,
    );
    expect(answer.headers['location']).toBe('/v1/pets/1');
  });
});
