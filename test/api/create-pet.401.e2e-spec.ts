import { expectError } from '../support/answers.js';
import { send, type Message } from '../support/send.js';
import { startService, type TestService } from '../support/service.js';

const JSON_TYPE = { 'Content-Type': 'application/json' };

const MESSAGES: [string, Message][] = [
  ['a valid one', { headers: JSON_TYPE, body: '{"name":"a","categoryId":1}' }],
  ['an invalid one', { headers: JSON_TYPE, body: '{}' }],
  ['broken JSON', { headers: JSON_TYPE, body: '{' }],
  ['another type', { headers: { 'Content-Type': 'text/plain' }, body: 'x' }],
  ['a coding', { headers: { ...JSON_TYPE, 'Content-Encoding': 'gzip' }, body: 'x' }],
  ['one that is too large', { headers: JSON_TYPE, body: ' '.repeat(16_385) }],
  ['one that is too deep', { headers: JSON_TYPE, body: '['.repeat(2000) }],
];

describe('createPet 401', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterEach(async () => {
    expect(await service.query('select * from pets')).toEqual([]);
  });
  afterAll(() => service.stop());

  it.each(MESSAGES)(
    'refuses a request without a key, whatever its body: %s',
    async (_what, message) => {
      const answer = await send(service, {
        ...message,
        headers: { ...message.headers, Authorization: '' },
      });
      expectError(answer, 401, 'missing_api_key');
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="animal-store"');
    },
  );

  it.each(MESSAGES)('refuses an invalid key, whatever the body: %s', async (_what, message) => {
    const answer = await send(service, {
      ...message,
      headers: { ...message.headers, Authorization: 'Bearer x' },
    });
    expectError(answer, 401, 'invalid_api_key');
    expect(answer.headers['www-authenticate']).toBe(
      'Bearer realm="animal-store", error="invalid_token"',
    );
  });
});
