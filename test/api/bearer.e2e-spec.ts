import { newApiKey } from '../../src/api-key.js';
import { type Answer, expectError } from '../support/answers.js';
import { HttpLimits } from '../../src/http/limits.js';
import { exchange, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

const CHALLENGE = 'Bearer realm="animal-store"';
const INVALID_TOKEN = `${CHALLENGE}, error="invalid_token"`;

/** With Host and two more there are as many as there may be. */
const OTHERS = Array<string>(new HttpLimits().headerFields - 3).fill('X: y');

const VALID = 'Authorization: Bearer KEY';

function expect401(answer: Answer, isMissing: boolean, words: string[] = []): void {
  expectError(answer, 401, isMissing ? 'missing_api_key' : 'invalid_api_key', words);
  expect(answer.headers['www-authenticate']).toBe(isMissing ? CHALLENGE : INVALID_TOKEN);
}

describe('the Authorization header', () => {
  const service = serviceOfTests();

  /** A request with exactly these header lines, in which KEY stands for a valid key. */
  const send = (line: string, headers: readonly string[], body?: string) => {
    const withKey = (text: string) => text.replaceAll('KEY', service.key);
    return exchange(
      service.port,
      request(withKey(line), headers.map(withKey), body && withKey(body)),
    );
  };
  const listPets = (...headers: string[]) => send('GET /v1/pets', headers);

  it.each([
    VALID,
    'authorization: bearer KEY',
    'AUTHORIZATION: BEARER KEY',
    'Authorization:Bearer    KEY',
    'Authorization: \t Bearer KEY \t ',
  ])('lets in %j', async (header) => {
    expect((await listPets(header)).status).toBe(200);
  });

  it('lets in a valid one behind as many other headers as there may be', async () => {
    expect((await listPets(...OTHERS, VALID)).status).toBe(200);
  });

  it.each([
    'Authorization:',
    'Proxy-Authorization: Bearer KEY',
    'X-API-Key: KEY',
    'Cookie: access_token=KEY',
    'X: y',
  ])('is asked for beside %j alone', async (header) => {
    expect401(await listPets(header), true);
  });

  it.each<[string, string[]?]>([
    ['Authorization: Bearer\tKEY'],
    ['Authorization: Bearer'],
    ['Authorization: Bearer: KEY'],
    ['Authorization: Bearer KEY KEY'],
    ['Authorization: Bearer token="KEY"'],
    ['Authorization: Bearer KEY\xff'],
    ['Authorization: Bearer animalstore_'],
    ['two valid headers', [VALID, VALID]],
    ['as many others between them as there may be', [VALID, ...OTHERS, VALID]],
    ['a wrong header first', ['Authorization: Bearer abc', VALID]],
    ['a wrong header second', [VALID, 'authorization: Bearer abc']],
    ['an empty header first', ['Authorization:', VALID]],
    ['an empty header second', [VALID, 'Authorization:']],
    ['Basic beside a valid one', ['Authorization: Basic x', VALID]],
  ])('is refused as %j', async (header, headers = [header]) => {
    expect401(await listPets(...headers), false);
  });

  it.each(['KEY', 'BearerKEY', 'Basic dXNlcjpwYXNz', 'bearer_x'])(
    'is refused as %j, because the scheme Bearer is missing',
    async (credential) => {
      const answer = await listPets(`Authorization: ${credential}`);
      expect401(answer, false, ['scheme Bearer is missing']);
    },
  );

  const JSON_TYPE = ['Content-Type: application/json'];
  const FORM_TYPE = ['Content-Type: application/x-www-form-urlencoded'];
  const BODY = '{"name":"Rex","categoryId":1,"access_token":"KEY"}';
  it.each<[what: string, line: string, headers?: string[], body?: string]>([
    ['an access_token in the query', 'GET /v1/pets?access_token=KEY'],
    ['an access_token in a JSON body', 'POST /v1/pets', JSON_TYPE, BODY],
    ['an access_token in a form body', 'POST /v1/pets', FORM_TYPE, 'access_token=KEY'],
    ['a broken JSON body', 'POST /v1/pets', JSON_TYPE, '{"name":'],
    ['a body of the wrong shape', 'POST /v1/pets', JSON_TYPE, '{}'],
    ['a bad media type', 'POST /v1/pets', ['Content-Type: text/plain'], 'hello'],
    ['a body over the limit', 'POST /v1/pets', JSON_TYPE, 'x'.repeat(20_000)],
    ['a bad limit', 'GET /v1/pets?limit=0'],
    ['a malformed petId', 'GET /v1/pets/abc'],
    ['an unknown petId', 'GET /v1/pets/404'],
    ['a bad limit of orders', 'GET /v1/store/orders?limit=0'],
    ['a petId that does not decode', 'GET /v1/pets/%ff'],
  ])('is judged before %s, which is no credential', async (_what, line, headers = [], body) => {
    expect401(await send(line, headers, body), true);
    for (const credential of [`Bearer ${newApiKey()}`, 'Bearer x', 'Basic x']) {
      const answer = await send(line, [`Authorization: ${credential}`, ...headers], body);
      expect401(answer, false);
    }
    expect(await service.query('select from pets')).toEqual([]);
  });
});
