import { expectError } from '../support/answers.js';
import { send, type Message } from '../support/send.js';
import { startService, type TestService } from '../support/service.js';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const get = (path: string): [string, Message] => [`GET ${path}`, { method: 'GET', path }];
const post = (what: string, body: string, headers: Record<string, string> = JSON_TYPE) =>
  [`POST /v1/pets with ${what}`, { headers, body }] as [string, Message];

/** Requests of each operation, valid and not. There is a pet 1, and none with the id 2. */
const REQUESTS: [string, Message][] = [
  ...['', '?limit=0&status=gone&cursor=x', '?limit[]=1'].map((query) => get(`/v1/pets${query}`)),
  ...['', '?limit=0&cursor=x'].map((query) => get(`/v1/store/orders${query}`)),
  ...['1', '2', 'x', '%ff'].map((petId) => get(`/v1/pets/${petId}`)),
  post('a valid body', '{"name":"a","categoryId":1}'),
  post('an invalid one', '{}'),
  post('broken JSON', '{'),
  post('another type', 'x', { 'Content-Type': 'text/plain' }),
  post('a coding', 'x', { ...JSON_TYPE, 'Content-Encoding': 'gzip' }),
  post('one that is too large', ' '.repeat(16_385)),
  post('one that is too deep', '['.repeat(2000)),
];

describe.each([
  ['without a key', '', 'missing_api_key', 'Bearer realm="animal-store"'],
  [
    'with an invalid key',
    'Bearer x',
    'invalid_api_key',
    'Bearer realm="animal-store", error="invalid_token"',
  ],
])('a request %s', (_title, Authorization, code, challenge) => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
    await service.query(`insert into pets (id, name, category_id) values (1, 'Rex', 1)`);
  });
  afterAll(() => service.stop());

  it.each(REQUESTS)(
    'is refused before anything else of it is looked at: %s',
    async (_w, message) => {
      const headers = { ...message.headers, Authorization };
      const answer = await send(service, { ...message, headers });
      expectError(answer, 401, code);
      expect(answer.headers['www-authenticate']).toBe(challenge);
      expect(await service.query('select id from pets')).toEqual([{ id: '1' }]);
    },
  );
});
