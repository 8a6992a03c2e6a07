import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { Gate } from '../../src/gate/gate.js';
import { INT64_MAX, INT64_MIN } from '../../src/int64.js';
import { expectError, walk } from '../support/answers.js';
import { FULL_LENGTH } from '../support/full-length.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const REX = '{"name":"Rex","categoryId":1}';
const CHUNKED = { 'Transfer-Encoding': 'chunked' };

type Headers = Record<string, string | string[]>;

const list = (text: string) => text.trim().split(/\s+/);

const service = serviceOfTests();

describe('createPet', () => {
  it('responds with the pet, of an id of its own, and its address', async () => {
    const pet = { name: 'Rex', categoryId: 7, status: 'sold' };
    const sent = service.api.post('/v1/pets').send({ id: 4711, ...pet });
    const { body, text, headers } = await sent.expect(201);
    expect(body.id).not.toBe(4711);
    expect(text).toContain(`{"id":${body.id},"name":"Rex","categoryId":7,"status":"sold"`);
    expect(headers['location']).toBe(`/v1/pets/${body.id}`);
  });

  it('gets 503, and its large body is not parsed, if its turn among those of its key comes after its deadline', async () => {
    const inTurn = jest.spyOn(service.get(Gate), 'inTurn');
    const keyIds: unknown[] = [];
    inTurn.mockImplementation(({ req }, keyId, work) => {
      // Its first turn is before it has a route.
      if (req.route !== undefined) {
        keyIds.push(keyId);
        req.arrivedAt = -Infinity;
      }
      work();
    });
    const sent = service.api.post('/v1/pets').set(JSON_TYPE);
    expectError(await sent.send('{'.padEnd(1_025)), 503, 'unavailable');
    inTurn.mockRestore();
    const [{ id }] = await service.query("select id::text from api_keys where name = 'test'");
    expect(keyIds).toEqual([id]);
  });

  it.each<[string, string | Buffer, Headers?]>([
    ['unknown fields', `{"access_token":"x","Name":1,"STATUS":1,"a":1e999,${REX.slice(1)}`],
    ['the last of repeated keys', `{"name":null,"categoryId":[],"n\\u0061me":"x",${REX.slice(1)}`],
    ['an integer by its value', '{"name":"Rex","categoryId":10e-1}'],
    ['a leading BOM', Buffer.from(`\ufeff${REX}`)],
    ['16,384 bytes with their length', REX.padEnd(16_384)],
    ['16,384 bytes in chunks', REX.padEnd(16_384), { ...JSON_TYPE, ...CHUNKED }],
    ...[
      'Application/JSON',
      'application/json ; Charset=Utf-8',
      'application/json; ; \t;charset=utf-8 ;',
      'application/json; charset="utf-8"; a=";\\""',
    ].map((type): [string, string, Headers] => [type, REX, { 'Content-Type': type }]),
    ...['', 'Identity'].map((coding): [string, string, Headers] => [
      `Content-Encoding: ${coding}`,
      REX,
      { ...JSON_TYPE, 'Content-Encoding': coding },
    ]),
    // They mean something to JavaScript, to class-transformer or to class-validator.
    ...list('constructor __proto__ prototype toString hasOwnProperty then toJSON length').flatMap(
      (key) =>
        list('"x" 1 null {} [] {"name":"x"} {"constructor":"x"}')
          .map((value) => `"${key}":${value}`)
          .map((it): [string, string] => [it, `{${it},"a":[[{${it}}]],${REX.slice(1)}`]),
    ),
  ])('accepts %s', async (_what, body, headers = JSON_TYPE) => {
    const { status, text } = await send(service, { headers, body });
    expect(status).toBe(201);
    expect(text).toMatch(/^\{"id":\d+,"name":"Rex","categoryId":1,"status":"available"/);
  });

  it('stores what getPet and listPets then return exactly', async () => {
    await service.query('truncate pets cascade');
    const text = fc.oneof(
      fc.string({ unit: 'binary', minLength: 1, maxLength: 255, size: 'max' }),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
    );
    const name = text.filter((it) => !it.includes('\0') && /\P{White_Space}/u.test(it));
    const int64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
    const status = fc.constantFrom('available', 'pending', 'sold');
    const created = new Map<number, string>();
    await fc.assert(
      fc.asyncProperty(name, int64, status, async (name, categoryId, status) => {
        const body = `{"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;
        const { text, headers } = await service.api.post('/v1/pets').type('json').send(body);
        const pet = JSON.parse(text);
        expect(pet.name).toBe(name);
        expect(text.replace(/"name":.*,"categoryId"/su, '"categoryId"')).toContain(
          `{"id":${pet.id},"categoryId":${categoryId},"status":"${status}"`,
        );
        expect((await service.api.get(headers['location']!).expect(200)).text).toBe(text);
        created.set(pet.id, text);
      }),
      { numRuns: FULL_LENGTH ? 1_000 : 100 },
    );
    const pages = await walk(service, '/v1/pets?limit=100');
    const listed = pages.map((page) => page.text.slice(1, -1)).join(',');
    expect(listed).toBe([...created.values()].join(','));
  });
});

describe('createPet, which then stores nothing,', () => {
  beforeAll(() => service.query('truncate pets cascade'));
  afterEach(async () => expect(await service.query('select * from pets')).toEqual([]));

  const withField = (field: string, values: string) =>
    list(values).map((value): [string, string, string[]] => [
      'invalid_request',
      `{"name":"a","categoryId":1,"${field}":${value}}`,
      [field],
    ]);

  // document.e2e-spec.ts has more names, int64.spec.ts more numbers, body.guard.spec.ts more bodies that are no JSON.
  it.each<[string, string | Buffer, string[]?]>([
    ...withField('name', '5 null true ["Rex"] [] {"a":1} "a\\u0000" "\\ud800" "a\\udc00\\ud800b"'),
    ...withField('name', '"\\u0020\\u3000"'),
    ...withField('categoryId', '"1" "" "9223372036854775807" null true [] [1] {} 0.5'),
    ...withField('categoryId', '9223372036854775808 -9223372036854775809 1e20 1e400'),
    ...withField('status', 'null "" "Available" "sold\\u0000" "toString" 0 [] ["sold"]'),
    ['invalid_request', '{"__proto__":{"name":"Rex","categoryId":1}}', ['name', 'categoryId']],
    ['invalid_request', '{"status":null}', ['name', 'categoryId', 'pending, sold, or omitted']],
    ['invalid_request', '{"name":"a","NAME":"b","name":null,"categoryId":0}', ['name']],
    ...list('[] [{"name":"a","categoryId":1}] "a" 1 true null').map((body): [string, string] => [
      'invalid_request',
      body,
    ]),
    ...['', '{', 'name=a&categoryId=1'].map((body): [string, string] => ['invalid_json', body]),
    ['invalid_json', Buffer.from('{"name":"é","categoryId":1}', 'latin1')],
  ])('rejects with 400 and %s, naming every error, the body %s', async (code, body, words = []) =>
    expectError(await send(service, { headers: JSON_TYPE, body }), 400, code, words),
  );

  it.each([
    ['16,385 bytes', REX.padEnd(16_385)],
    ['1 MiB', REX.padEnd(1024 * 1024)],
    ['18,000 bytes in 6,000 characters', `{"x":"${'猫'.repeat(6000)}",${REX.slice(1)}`],
  ])('rejects with 413 a body of %s, with its length and in chunks', async (_what, body) => {
    for (const framing of [{}, CHUNKED]) {
      const headers = { ...JSON_TYPE, ...framing };
      expectError(await send(service, { headers, body }), 413, 'payload_too_large');
    }
  });

  it.each<[Headers, (string | Buffer)?]>([
    ...[
      ...list('text/plain text/json */* application/* application/jsonp application/json5 json'),
      ...list('application/json-patch+json application/json,application/json'),
      ...list('iso-8859-1 us-ascii utf-16 utf-16le UTF-7 "utf\\-16" "utf-8').map(
        (charset) => `application/json; charset=${charset}`,
      ),
      'application/json; a=b, text/plain',
      'application/json; charset=utf-8; charset=utf-16',
      'application/json; charset=',
      `application/json${'; '.repeat(4000)}@`,
      `application/json;a="${'\\"'.repeat(4000)}`,
      '',
    ].map((type): [Headers] => [{ 'Content-Type': type }]),
    ...['gzip', 'GZIP', 'br', 'x', 'gzip, identity'].map((coding): [Headers, Buffer] => [
      { ...JSON_TYPE, 'Content-Encoding': coding },
      gzipSync(REX),
    ]),
    [{}],
    [CHUNKED],
    [{ 'Content-Type': 'text/plain' }, ''],
    [{ 'Content-Type': ['application/json', 'application/json'] }],
  ])('rejects with 415 what is not sent as JSON in UTF-8: %j', async (headers, body = REX) => {
    const answer = await send(service, { headers, body });
    expectError(answer, 415, 'unsupported_media_type');
    const isCoded = 'Content-Encoding' in headers;
    expect(answer.headers['accept-encoding']).toBe(isCoded ? 'identity' : undefined);
  });
});
