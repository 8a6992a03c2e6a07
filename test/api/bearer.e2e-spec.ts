import { newApiKey } from '../../src/api-key.js';
import { expectError } from '../support/answers.js';
import { HttpLimits } from '../../src/http/limits.js';
import { exchange, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

const CHALLENGE = 'Bearer realm="animal-store"';
const INVALID_TOKEN = `${CHALLENGE}, error="invalid_token"`;

/** With Host and two more there are as many as there may be. */
const OTHERS = Array<string>(new HttpLimits().headerFields - 3).fill('X: y');

describe('the Authorization header', () => {
  const service = serviceOfTests();

  /** listPets with exactly these header lines, in which KEY stands for a valid key. */
  const listPets = (...headers: string[]) =>
    exchange(
      service.port,
      request(
        'GET /v1/pets',
        headers.map((header) => header.replaceAll('KEY', service.key)),
      ),
    );

  it.each([
    'Authorization: Bearer KEY',
    'authorization: bearer KEY',
    'AUTHORIZATION: BEARER KEY',
    'Authorization: bEaReR KEY',
    'Authorization: Bearer    KEY',
    'Authorization:Bearer KEY',
    'Authorization: \t Bearer KEY \t ',
  ])('lets in %j', async (header) => {
    expect((await listPets(header)).status).toBe(200);
  });

  it('lets in a valid one behind as many other headers as there may be', async () => {
    expect((await listPets(...OTHERS, 'Authorization: Bearer KEY')).status).toBe(200);
  });

  it.each([
    ['absent', []],
    ['empty', ['Authorization:']],
    ['blank', ['Authorization:   ']],
  ])('is asked for where it is %s', async (_title, headers) => {
    const answer = await listPets(...headers);
    expectError(answer, 401, 'missing_api_key');
    expect(answer.headers['www-authenticate']).toBe(CHALLENGE);
  });

  it.each([
    ['a tab for a space', ['Authorization: Bearer\tKEY']],
    ['a tab after a space', ['Authorization: Bearer \tKEY']],
    ['no scheme', ['Authorization: KEY']],
    ['the scheme alone', ['Authorization: Bearer']],
    ['no space', ['Authorization: BearerKEY']],
    ['a colon after the scheme', ['Authorization: Bearer: KEY']],
    ['Basic', ['Authorization: Basic dXNlcjpwYXNz']],
    ['the key under Basic', ['Authorization: Basic KEY']],
    ['two tokens', ['Authorization: Bearer KEY KEY']],
    ['a comma', ['Authorization: Bearer KEY,']],
    ['two credentials', ['Authorization: Bearer KEY, Bearer KEY']],
    ['parameters', ['Authorization: Bearer token="KEY"']],
    ['the key in quotes', ['Authorization: Bearer "KEY"']],
    ['bytes beyond ASCII', ['Authorization: Bearer KEY\xff']],
    ['a no-break space', ['Authorization: Bearer\xa0KEY']],
    ['a key cut short', ['Authorization: Bearer animalstore_']],
    ['a key of other making', ['Authorization: Bearer abc']],
    ['an unknown key', [`Authorization: Bearer ${newApiKey()}`]],
    ['two valid headers', ['Authorization: Bearer KEY', 'Authorization: Bearer KEY']],
    ['a wrong header first', ['Authorization: Bearer abc', 'Authorization: Bearer KEY']],
    ['a wrong header second', ['Authorization: Bearer KEY', 'authorization: Bearer abc']],
    ['an empty header first', ['Authorization:', 'Authorization: Bearer KEY']],
    ['an empty header second', ['Authorization: Bearer KEY', 'Authorization:']],
    [
      'two valid headers, as many others between them as there may be',
      ['Authorization: Bearer KEY', ...OTHERS, 'Authorization: Bearer KEY'],
    ],
    ['Basic beside a valid one', ['Authorization: Basic x', 'Authorization: Bearer KEY']],
  ])('is refused with %s', async (_title, headers) => {
    const answer = await listPets(...headers);
    expectError(answer, 401, 'invalid_api_key');
    expect(answer.headers['www-authenticate']).toBe(INVALID_TOKEN);
  });

  it.each(['\x00', '\x01', '\x1b', '\x7f'])(
    'is no well-formed HTTP with the control character %j',
    async (character) => {
      expectError(await listPets(`Authorization: Bearer KEY${character}`), 400, 'invalid_request');
    },
  );

  it.each(['Proxy-Authorization: Bearer KEY', 'X-API-Key: KEY', 'Cookie: access_token=KEY'])(
    'is not replaced by %j',
    async (header) => {
      expectError(await listPets(header), 401, 'missing_api_key');
    },
  );

  describe.each([
    ['no header', [], 'missing_api_key', CHALLENGE],
    ['Authorization: Basic x', ['Authorization: Basic x'], 'invalid_api_key', INVALID_TOKEN],
    ['an invalid key', ['Authorization: Bearer abc'], 'invalid_api_key', INVALID_TOKEN],
  ] as const)('beside %s', (_title, headers, code, challenge) => {
    it.each([
      ['the query', () => request(`GET /v1/pets?access_token=${service.key}`, [...headers])],
      [
        'a JSON body',
        () =>
          request(
            'POST /v1/pets',
            [...headers, 'Content-Type: application/json'],
            JSON.stringify({ name: 'Rex', categoryId: 1, access_token: service.key }),
          ),
      ],
      [
        'a form body',
        () =>
          request(
            'POST /v1/pets',
            [...headers, 'Content-Type: application/x-www-form-urlencoded'],
            `access_token=${service.key}`,
          ),
      ],
    ])('an access_token in %s is no credential', async (_place, bytes) => {
      const answer = await exchange(service.port, bytes());
      expectError(answer, 401, code);
      expect(answer.headers['www-authenticate']).toBe(challenge);
    });
  });

  it('lets in a valid key whatever access_token says', async () => {
    await service.api.get('/v1/pets?access_token=abc').expect(200);
    await service.api
      .post('/v1/pets')
      .send({ name: 'Rex', categoryId: 1, access_token: 'abc' })
      .expect(201);
  });

  describe.each([
    ['no key', [], 'missing_api_key', CHALLENGE],
    ['an unknown key', [`Authorization: Bearer ${newApiKey()}`], 'invalid_api_key', INVALID_TOKEN],
    ['a malformed key', ['Authorization: Bearer x'], 'invalid_api_key', INVALID_TOKEN],
  ] as const)('with %s, is judged before', (_title, headers, code, challenge) => {
    const json = 'Content-Type: application/json';
    beforeEach(() => service.query('truncate pets cascade'));

    it.each([
      ['a valid body', 'POST /v1/pets', [json], '{"name":"Rex","categoryId":1}'],
      ['a broken JSON body', 'POST /v1/pets', [json], '{"name":'],
      ['a body of the wrong shape', 'POST /v1/pets', [json], '{}'],
      ['no body', 'POST /v1/pets', [], undefined],
      ['a bad media type', 'POST /v1/pets', ['Content-Type: text/plain'], 'hello'],
      ['a bad content coding', 'POST /v1/pets', [json, 'Content-Encoding: gzip'], '\x1f\x8b'],
      ['a body over the limit', 'POST /v1/pets', [json], 'x'.repeat(20_000)],
      ['a body nested too deep', 'POST /v1/pets', [json], '['.repeat(5_000)],
      ['a bad limit', 'GET /v1/pets?limit=0', [], undefined],
      ['a bad status', 'GET /v1/pets?status=x', [], undefined],
      ['a bad cursor', 'GET /v1/pets?cursor=x', [], undefined],
      ['a malformed petId', 'GET /v1/pets/abc', [], undefined],
      ['an unknown petId', 'GET /v1/pets/404', [], undefined],
      ['a bad limit of orders', 'GET /v1/store/orders?limit=0', [], undefined],
      ['a petId that does not decode', 'GET /v1/pets/%ff', [], undefined],
    ])('%s', async (_fault, line, more, body) => {
      const answer = await exchange(service.port, request(line, [...headers, ...more], body));
      expectError(answer, 401, code);
      expect(answer.headers['www-authenticate']).toBe(challenge);
      expect(await service.query('select from pets')).toEqual([]);
    });
  });

  it.each(['Basic YTpi', 'Basic bearer', 'Token x', 'bearer_x'])(
    'says that the scheme Bearer is missing, whatever the key: %s',
    async (credential) => {
      for (const sent of [credential, service.key]) {
        const answer = await service.anonymous.get('/v1/pets').set('Authorization', sent);
        expectError(answer, 401, 'invalid_api_key', ['scheme Bearer is missing']);
        expect(answer.headers['www-authenticate']).toBe(INVALID_TOKEN);
      }
    },
  );
});
