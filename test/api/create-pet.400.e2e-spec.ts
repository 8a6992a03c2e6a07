import { expectError } from '../support/answers.js';
import { RawConnection, request } from '../support/raw-http.js';
import { send } from '../support/send.js';
import { startService, type TestService } from '../support/service.js';

describe('createPet 400', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService();
  });
  afterEach(async () => {
    expect(await service.query('select * from pets')).toEqual([]);
  });
  afterAll(() => service.stop());

  const refuses = async (body: string | Uint8Array, code: string, words?: string[]) =>
    expectError(
      await send(service, { headers: { 'Content-Type': 'application/json' }, body }),
      400,
      code,
      words,
    );

  it.each([
    ['an empty string', '""'],
    ['256 letters', JSON.stringify('a'.repeat(256))],
    ['256 characters outside the BMP', JSON.stringify('😀'.repeat(256))],
    ['255 letters and a space', JSON.stringify(`${'a'.repeat(255)} `)],
    ['a space', '" "'],
    ['255 spaces', JSON.stringify(' '.repeat(255))],
    [
      'all the white space of Unicode',
      JSON.stringify(
        '\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000',
      ),
    ],
    ['U+0000', '"a\\u0000b"'],
    ['U+0000 alone', '"\\u0000"'],
    ['a lone high surrogate', '"\\ud83d"'],
    ['a lone low surrogate', '"a\\ude00"'],
    ['surrogates in the wrong order', '"\\ude00\\ud83d"'],
    ['a number', '5'],
    ['null', 'null'],
    ['true', 'true'],
    ['an array', '["Rex"]'],
    ['an empty array', '[]'],
    ['an object', '{"a":1}'],
    ['an object with a constructor', '{"constructor":"x"}'],
    ['an object with null for a constructor', '{"constructor":null}'],
    ['an object with a prototype', '{"__proto__":{"length":1}}'],
    ['an object with null for a prototype', '{"__proto__":null}'],
    ['an object with then', '{"then":1}'],
  ])('refuses a name that is %s', (_what, name) =>
    refuses(`{"name":${name},"categoryId":1}`, 'invalid_request', ['name']),
  );

  it.each([
    '9223372036854775808',
    '-9223372036854775809',
    '9223372036854775807.5',
    '9223372036854775807.0000000000000000001',
    '9223372036854775808.0',
    '9.223372036854775808e18',
    '1e19',
    '1e400',
    '-1e400',
    '1e99999999999999999999',
    '9'.repeat(1000),
    '0.5',
    '1.5',
    '1e-1',
    '1e-400',
    '9007199254740993.5',
    '0.' + '0'.repeat(1000) + '1',
    '"1"',
    '""',
    '"9223372036854775807"',
    'null',
    'true',
    '[]',
    '[1]',
    '{}',
    '{"valueOf":1}',
    '{"constructor":1}',
  ])('refuses the categoryId %s', (categoryId) =>
    refuses(`{"name":"a","categoryId":${categoryId}}`, 'invalid_request', ['categoryId']),
  );

  it.each([
    'null',
    '""',
    '"Available"',
    '"SOLD"',
    '" sold"',
    '"sold\\u0000"',
    '"gone"',
    '"toString"',
    '0',
    '1',
    'true',
    'false',
    '[]',
    '["sold"]',
    '{}',
    '{"constructor":1}',
  ])('refuses the status %s', (status) =>
    refuses(`{"name":"a","categoryId":1,"status":${status}}`, 'invalid_request', ['status']),
  );

  it.each([
    ['{}', ['name', 'categoryId']],
    ['{"status":null}', ['name', 'categoryId', 'status']],
    ['{"name":1,"categoryId":"1","status":"x"}', ['name', 'categoryId', 'status']],
    ['{"name":"a","status":"x"}', ['categoryId', 'status']],
    ['{"categoryId":1}', ['name']],
    ['{"name":"a"}', ['categoryId']],
    ['{"NAME":"a","categoryID":1}', ['name', 'categoryId']],
    ['{"__proto__":{"name":"a","categoryId":1}}', ['name', 'categoryId']],
    ['{"name":"a","name":null,"categoryId":1,"categoryId":0.5}', ['name', 'categoryId']],
  ])('names every fault of %s', (body, words) => refuses(body, 'invalid_request', words));

  it('names only faults', async () => {
    const answer = await service.api.post('/v1/pets').send({ name: 'a', categoryId: '1' });
    expect(answer.body.message).toContain('categoryId');
    expect(answer.body.message).not.toMatch(/\bname\b|status/);
  });

  it.each(['[]', '[{"name":"a","categoryId":1}]', '"a"', '""', '1', '0.5', 'true', 'null'])(
    'refuses a body that is no object: %s',
    (body) => refuses(body, 'invalid_request'),
  );

  it.each([
    '',
    ' ',
    '{',
    '}',
    '{"name":"a","categoryId":1',
    '{"name":"a","categoryId":1}}',
    '{"name":"a","categoryId":1}{}',
    '{"name":"a","categoryId":1,}',
    '{,"name":"a"}',
    '{"name":"a" "categoryId":1}',
    "{'name':'a','categoryId':1}",
    '{name:"a",categoryId:1}',
    '{"name":"a","categoryId":01}',
    '{"name":"a","categoryId":+1}',
    '{"name":"a","categoryId":.5}',
    '{"name":"a","categoryId":1.}',
    '{"name":"a","categoryId":1e}',
    '{"name":"a","categoryId":0x1}',
    '{"name":"a","categoryId":1n}',
    '{"name":"a","categoryId":NaN}',
    '{"name":"a","categoryId":Infinity}',
    '{"name":"a","categoryId":-}',
    '{"name":"a","categoryId":undefined}',
    '{"name":"a\nb","categoryId":1}',
    '{"name":"a\u0000b","categoryId":1}',
    '{"name":"a\\x41","categoryId":1}',
    '{"name":"\\u12","categoryId":1}',
    '{"name":"a","categoryId":1} // no',
    '/* no */{"name":"a","categoryId":1}',
    '\u00a0{"name":"a","categoryId":1}',
    '\ufeff\ufeff{"name":"a","categoryId":1}',
    ')]}\',\n{"name":"a","categoryId":1}',
    'name=a&categoryId=1',
  ])('refuses a body that is not JSON: %j', (body) => refuses(body, 'invalid_json'));

  it.each([
    ['Latin-1', Buffer.from('{"name":"é","categoryId":1}', 'latin1')],
    ['UTF-16 with a BOM', Buffer.from('\ufeff{"name":"a","categoryId":1}', 'utf16le')],
    ['UTF-16', Buffer.from('{"name":"a","categoryId":1}', 'utf16le')],
    ['an overlong form', withName([0xc1, 0x81])],
    ['a surrogate in CESU-8', withName([0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80])],
    ['a code point over U+10FFFF', withName([0xf4, 0x90, 0x80, 0x80])],
    ['a cut sequence', withName([0xe2, 0x82])],
    ['a lone continuation byte', withName([0x80])],
    ['the byte FF', withName([0xff])],
  ])('refuses a body that is not UTF-8: %s', (_what, body) => refuses(body, 'invalid_json'));

  it.each([
    ['arrays', '['.repeat(32) + ']'.repeat(32)],
    ['objects', '{"a":'.repeat(31) + '{}' + '}'.repeat(31)],
    ['2,000 arrays', '['.repeat(2000) + ']'.repeat(2000)],
    ['2,000 objects', '{"a":'.repeat(2000) + '1' + '}'.repeat(2000)],
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

  it('does not echo what was sent', async () => {
    const answer = await service.api
      .post('/v1/pets')
      .send({ name: '', categoryId: '<script>', status: '<script>' });
    expect(answer.text).not.toContain('script');
  });
});

function withName(bytes: number[]): Buffer {
  return Buffer.concat([
    Buffer.from('{"name":"a'),
    Buffer.from(bytes),
    Buffer.from('b","categoryId":1}'),
  ]);
}
