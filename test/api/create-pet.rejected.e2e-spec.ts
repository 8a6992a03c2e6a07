import { gzipSync } from 'node:zlib';
import { expectError } from '../support/answers.js';
import { RawConnection, request } from '../support/raw-http.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const REX = '{"name":"Rex","categoryId":1}';
const JSON_TYPE = { 'Content-Type': 'application/json' };
const list = (text: string) => text.split(' ');

type Headers = Record<string, string | string[]>;

describe('createPet, which then stores nothing,', () => {
  const service = serviceOfTests();
  afterEach(async () => {
    expect(await service.query('select * from pets')).toEqual([]);
  });

  const rejects = async (body: string | Uint8Array, code: string, words?: string[]) =>
    expectError(await send(service, { headers: JSON_TYPE, body }), 400, code, words);

  // pets.roundtrip.property.e2e-spec.ts has more names, src/int64.spec.ts more numbers.
  it.each([
    ...list('5 null true ["Rex"] [] {"a":1} "a\\u0000" "\\ud800" "a\\udc00\\ud800b"').map(
      (value) => ['name', value],
    ),
    ...list('"1" "" "9223372036854775807" null true [] [1] {} 0.5').map((it) => ['categoryId', it]),
    ...list('null "" "Available" "sold\\u0000" "toString" 0 [] ["sold"]').map((it) => [
      'status',
      it,
    ]),
  ])('rejects with 400 the %s %s', (field, value) =>
    rejects(`{"name":"a","categoryId":1,"${field}":${value}}`, 'invalid_request', [field!]),
  );

  it.each([
    ['{"__proto__":{"name":"Rex","categoryId":1}}', ['name', 'categoryId']],
    ['{"status":null}', ['name', 'categoryId', 'available, pending, sold, or omitted']],
    ['{"name":"a","status":"x"}', ['categoryId', 'status']],
    ['{"NAME":"a","categoryID":1}', ['name', 'categoryId']],
    ['{"name":"a","name":null,"categoryId":1,"categoryId":0.5}', ['name', 'categoryId']],
  ])('names every error of %s', (body, words) => rejects(body, 'invalid_request', words));

  it.each(list('[] [{"name":"a","categoryId":1}] "a" 1 true null'))(
    'rejects with 400 a body that is no object: %s',
    (body) => rejects(body, 'invalid_request'),
  );

  // test/http/body.guard.spec.ts compares with JSON.parse.
  it.each([
    ['an open object', '{'],
    ['a form', 'name=a&categoryId=1'],
    ['Latin-1', Buffer.from('{"name":"é","categoryId":1}', 'latin1')],
  ])('rejects with 400 a body that is not JSON in UTF-8: %s', (_what, body) =>
    rejects(body, 'invalid_json'),
  );

  it.each([
    ['without a length', undefined],
    ['of length 0', ''],
  ])('rejects an empty body %s, and serves the next request', async (_what, body) => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    const connection = await RawConnection.open(service.port);
    connection.send(request('POST /v1/pets', headers, body));
    expectError(await connection.answer(), 400, 'invalid_json');
    connection.send(request('GET /v1/pets', headers));
    expect((await connection.answer()).status).toBe(200);
    connection.vanish();
  });

  it.each([
    ['16,385 bytes', REX.padEnd(16_385)],
    ['1 MiB', REX.padEnd(1024 * 1024)],
    ['18,000 bytes in 6,000 characters', `{"x":"${'猫'.repeat(6000)}",${REX.slice(1)}`],
  ])('rejects with 413 a body of %s, with its length and in chunks', async (_what, body) => {
    for (const framing of [{}, { 'Transfer-Encoding': 'chunked' }] as Headers[]) {
      const headers = { ...JSON_TYPE, ...framing };
      expectError(await send(service, { headers, body }), 413, 'payload_too_large');
    }
  });

  const charsets = list('iso-8859-1 us-ascii utf-16 utf-16le UTF-7 "utf-8_" "utf\\-16"');
  const codings = ['gzip', 'GZIP', 'br', 'x', 'gzip, identity'];
  it.each<[Headers, (string | Buffer)?]>([
    ...[
      ...list('text/plain text/json */* application/* application/jsonp application/json5 json'),
      ...list('application/json-patch+json application/json,application/json'),
      'application/json; a=b, text/plain',
      'application/json; charset=utf-8; charset=utf-16',
      'application/json; charset = utf-16',
      'application/json; charset=',
      'application/json;;a="',
      `application/json${'; '.repeat(4000)}@`,
      `application/json;${' '.repeat(8000)}@`,
      `application/json;a="${'\\"'.repeat(4000)}`,
      '',
      ...charsets.map((charset) => `application/json; charset=${charset.replace('_', ' ')}`),
    ].map((type): [Headers] => [{ 'Content-Type': type }]),
    ...codings.map((coding): [Headers, Buffer] => [
      { ...JSON_TYPE, 'Content-Encoding': coding },
      gzipSync(REX),
    ]),
    [{}],
    [{ 'Transfer-Encoding': 'chunked' }],
    [{ 'Content-Type': 'text/plain' }, ''],
    [{ 'Content-Type': ['application/json', 'application/json'] }],
  ])('rejects with 415 what is not sent as JSON in UTF-8: %.80j', async (headers, body = REX) =>
    expectError(await send(service, { headers, body }), 415, 'unsupported_media_type'),
  );
});
