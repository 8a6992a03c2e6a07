import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const REX = '{"name":"Rex","categoryId":1}';
const STORED_REX = '"name":"Rex","categoryId":1,"status":"available"}';

describe('createPet 201', () => {
  const service = serviceOfTests();

  /** @returns the text of the pet after its id. */
  const create = async (body: string | Uint8Array, headers: Record<string, string> = JSON_TYPE) => {
    const { status, text } = await send(service, { headers, body });
    expect({ status, text }).toEqual({ status: 201, text: expect.stringMatching(/^\{"id":\d+,/) });
    return text.replace(/^\{"id":\d+,/, '');
  };
  const named = (name: string) => JSON.stringify({ name, categoryId: 1 });

  it('answers with the pet and its address, where the pet then is', async () => {
    const { body, text, headers } = await service.api
      .post('/v1/pets')
      .send({ name: 'Rex', categoryId: 7, status: 'sold' })
      .expect(201);
    expect(text).toBe(`{"id":${body.id},"name":"Rex","categoryId":7,"status":"sold"}`);
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
    expect(headers['location']).toBe(`/v1/pets/${body.id}`);
    expect((await service.api.get(headers['location']!).expect(200)).text).toBe(text);
    const rows = await service.query('select name from pets where id = $1', [body.id]);
    expect(rows).toEqual([{ name: 'Rex' }]);
  });

  it('assigns a new id to each animal, whatever id it was sent with', async () => {
    const [first, second] = [
      await service.api.post('/v1/pets').send({ id: 4711, name: 'a', categoryId: 1 }),
      await service.api.post('/v1/pets').send({ id: 4711, name: 'a', categoryId: 1 }),
    ];
    expect(first.body.id).not.toBe(4711);
    expect(second.body.id).toBeGreaterThan(first.body.id);
  });

  it.each(['available', 'pending', 'sold'])('stores the status %s', async (status) => {
    expect(await create(JSON.stringify({ name: 'a', categoryId: 1, status }))).toBe(
      `"name":"a","categoryId":1,"status":"${status}"}`,
    );
  });

  it.each([
    ['-0', '0'],
    ['3.0', '3'],
    ['1e2', '100'],
    ['9007199254740993', '9007199254740993'],
    ['9223372036854775807', '9223372036854775807'],
    ['-9223372036854775808', '-9223372036854775808'],
  ])('stores the categoryId %s exactly, as %s', async (sent, stored) => {
    expect(await create(`{"name":"a","categoryId":${sent}}`)).toBe(
      `"name":"a","categoryId":${stored},"status":"available"}`,
    );
  });

  // pets.roundtrip.property.e2e-spec.ts has more.
  it.each([
    ['255 characters outside the BMP', '😀'.repeat(255)],
    ['white space around', ' \t a\n '],
    ['white space and one letter', `${' '.repeat(254)}a`],
    ['a decomposed and a composed letter', 'e\u0301\u00e9'],
    ['quotes, backslashes and SQL', `"\\'\\u0041\\n'); drop table pets; --`],
    ['control characters', '\u0001\b\f\u001f\u007f\u0080'],
    ['joiners, marks and separators', '👩‍👩‍👧‍👦\u202eكلب\u200f\u2028\u2029'],
    ['noncharacters', '\ufffe\uffff\u{1fffe}\u{10ffff}\ufffd'],
  ])('stores a name exactly as sent: %s', async (_what, name) => {
    const stored = JSON.parse(`{${await create(named(name))}`);
    expect(stored).toEqual({ name, categoryId: 1, status: 'available' });
  });

  it('reads escapes in a name', async () => {
    expect(await create('{"name":"\\ud83d\\ude00\\u0041\\/","categoryId":1}')).toContain(
      '"name":"😀A/"',
    );
  });

  it.each([
    '{"access_token":"x","name":"Rex","categoryId":1}',
    '{"Name":1,"STATUS":1,"name":"Rex","categoryId":1}',
    '{"a":1e999,"b":0.5,"name":"Rex","categoryId":1}',
  ])('ignores unknown fields: %s', async (body) => {
    expect(await create(body)).toBe(STORED_REX);
  });

  it.each([
    '{"name":"other","name":"Rex","categoryId":1}',
    '{"name":null,"categoryId":[],"categoryId":1,"name":"Rex"}',
    '{"name":"Rex","categoryId":1,"status":null,"status":"available"}',
    '{"n\\u0061me":"other","name":"Rex","categoryId":1}',
  ])('takes the last value of a repeated key: %s', async (body) => {
    expect(await create(body)).toBe(STORED_REX);
  });

  it.each([
    'application/json',
    'Application/JSON',
    'application/json;charset=utf-8',
    'application/json; charset="utf-8"',
    'application/json ; Charset=Utf-8',
    'application/json; ; \t;charset=utf-8 ;',
    'application/json; charset="utf-8"; a=";\\""',
  ])('takes the media type %s', async (type) => {
    expect(await create(REX, { 'Content-Type': type })).toBe(STORED_REX);
  });

  it.each(['', 'identity', 'Identity'])('takes no Content-Encoding: %j', async (coding) => {
    expect(await create(REX, { ...JSON_TYPE, 'Content-Encoding': coding })).toBe(STORED_REX);
  });

  const nested = (value: string) => `{"x":${value},"name":"Rex","categoryId":1}`;
  const chunked = { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' };
  it.each<[string, string, Record<string, string>?]>([
    ['with a leading BOM', `\ufeff${REX}`],
    ['with white space around', `\r\n\t ${REX} \n`],
    ['with keys beyond ASCII', `{"Ünïcödé 😀":1,${REX.slice(1)}`],
    ['of 16,384 bytes with its length', REX.padEnd(16_384)],
    ['of 16,384 bytes in chunks', REX.padEnd(16_384), chunked],
    ['nested 32 levels deep in arrays', nested('['.repeat(31) + ']'.repeat(31))],
    ['nested 32 levels deep in objects', nested('{"a":'.repeat(30) + '{}' + '}'.repeat(30))],
  ])('takes a body %s', async (_what, body, headers = JSON_TYPE) => {
    expect(await create(Buffer.from(body), headers)).toBe(STORED_REX);
  });
});
