import { expectError } from '../support/answers.js';
import { RawConnection, request } from '../support/raw-http.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

describe('createPet 400', () => {
  const service = serviceOfTests();
  afterEach(async () => {
    expect(await service.query('select * from pets')).toEqual([]);
  });

  const refuses = async (body: string | Uint8Array, code: string, words?: string[]) =>
    expectError(
      await send(service, { headers: { 'Content-Type': 'application/json' }, body }),
      400,
      code,
      words,
    );

  // pets.roundtrip.property.e2e-spec.ts has more.
  it.each([
    ['256 letters', JSON.stringify('a'.repeat(256))],
    ['256 characters outside the BMP', JSON.stringify('😀'.repeat(256))],
    ['255 letters and a space', JSON.stringify(`${'a'.repeat(255)} `)],
    ['255 spaces', JSON.stringify(' '.repeat(255))],
    ['surrogates in the wrong order', '"\\ude00\\ud83d"'],
    ...['""', '" "', '"a\\u0000b"', '"\\u0000"', '"\\ud83d"', '"a\\ude00"'].map((it) => [it, it]),
    ...'5 null true ["Rex"] [] {"a":1}'.split(' ').map((it) => [it, it]),
  ])('refuses a name that is %s', (_what, name) =>
    refuses(`{"name":${name},"categoryId":1}`, 'invalid_request', ['name']),
  );

  // src/int64.spec.ts has more numbers.
  it.each([
    ...'9223372036854775808 -9223372036854775809 9223372036854775807.5 1e19 1e400 0.5'.split(' '),
    ...'"1" "" "9223372036854775807" null true [] [1] {} {"valueOf":1}'.split(' '),
  ])('refuses the categoryId %s', (categoryId) =>
    refuses(`{"name":"a","categoryId":${categoryId}}`, 'invalid_request', ['categoryId']),
  );

  it.each([
    '" sold"',
    ...'null "" "Available" "SOLD" "sold\\u0000" "toString" 0 true [] ["sold"] {}'.split(' '),
  ])('refuses the status %s', (status) =>
    refuses(`{"name":"a","categoryId":1,"status":${status}}`, 'invalid_request', ['status']),
  );

  it.each([
    ['{}', ['name', 'categoryId']],
    ['{"status":null}', ['name', 'categoryId', 'status']],
    ['{"name":1,"categoryId":"1","status":"x"}', ['name', 'categoryId', 'status']],
    ['{"name":"a","status":"x"}', ['categoryId', 'status']],
    ['{"categoryId":1}', ['name']],
    ['{"NAME":"a","categoryID":1}', ['name', 'categoryId']],
    ['{"name":"a","name":null,"categoryId":1,"categoryId":0.5}', ['name', 'categoryId']],
  ])('names every fault of %s', (body, words) => refuses(body, 'invalid_request', words));

  it('names only faults, and does not echo what was sent', async () => {
    const { text } = await service.api.post('/v1/pets').send({ name: 'a', categoryId: '<b>' });
    expect(text).toContain('categoryId');
    expect(text).not.toMatch(/\bname\b|"message":"[^"]*status|<b>/);
  });

  it.each('[] [{"name":"a","categoryId":1}] "a" "" 1 0.5 true null'.split(' '))(
    'refuses a body that is no object: %s',
    (body) => refuses(body, 'invalid_request'),
  );

  // test/http/body.guard.spec.ts compares with JSON.parse.
  it.each([
    ['nothing', ''],
    ['a space', ' '],
    ['an open object', '{'],
    ['JSON5', "{'name':'a','categoryId':1}"],
    ['NaN', '{"name":"a","categoryId":NaN}'],
    ['a form', 'name=a&categoryId=1'],
    ['Latin-1', Buffer.from('{"name":"é","categoryId":1}', 'latin1')],
    ['UTF-16 with a BOM', Buffer.from('\ufeff{"name":"a","categoryId":1}', 'utf16le')],
  ])('refuses a body that is not JSON in UTF-8: %s', (_what, body) =>
    refuses(body, 'invalid_json'),
  );

  it.each([
    ['arrays', '['.repeat(32) + ']'.repeat(32)],
    ['objects', '{"a":'.repeat(31) + '{}' + '}'.repeat(31)],
  ])('refuses a body nested deeper than 32 levels: %s', (_what, value) =>
    refuses(`{"name":"a","categoryId":1,"x":${value}}`, 'invalid_request', ['32']),
  );

  it.each([
    ['without a length', undefined],
    ['of length 0', ''],
  ])('refuses an empty body %s, and serves the next request', async (_what, body) => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const connection = await RawConnection.open(service.port);
    connection.send(request('POST /v1/pets', headers, body));
    expectError(await connection.answer(), 400, 'invalid_json');
    connection.send(request('GET /v1/pets', headers));
    expect((await connection.answer()).status).toBe(200);
    connection.vanish();
  });
});
