import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const REX = '{"name":"Rex","categoryId":1}';

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
    const found = await service.api.get(headers['location']!).expect(200);
    expect(found.text).toBe(text);
  });

  it('assigns a new id to each animal, also to one that was sent before', async () => {
    const first = await service.api.post('/v1/pets').send({ name: 'a', categoryId: 1 });
    const second = await service.api.post('/v1/pets').send({ name: 'a', categoryId: 1 });
    expect(second.body.id).toBeGreaterThan(first.body.id);
  });

  it('makes an animal available where no status is sent', async () => {
    expect(await create(REX)).toBe('"name":"Rex","categoryId":1,"status":"available"}');
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

  it.each([
    ['one character', 'a'],
    ['255 letters', 'a'.repeat(255)],
    ['255 characters outside the BMP', '😀'.repeat(255)],
    ['white space around', ' \t a\n '],
    ['white space and one letter', `${' '.repeat(254)}a`],
    ['a decomposed letter', 'e\u0301'],
    ['a composed letter', '\u00e9'],
    ['quotes and backslashes', '"\\\'\\u0041\\n'],
    ['control characters', '\u0001\b\f\u001f\u007f\u0080'],
    ['a zero-width joiner sequence', '👩‍👩‍👧‍👦'],
    ['right-to-left text and marks', '\u202eكلب\u200f'],
    ['line separators', 'a\u2028b\u2029c'],
    ['noncharacters', '\ufffe\uffff\u{1fffe}\u{10ffff}'],
    ['the replacement character', '\ufffd'],
    ['SQL', `'); drop table pets; --`],
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
    ['id', '{"id":5,"name":"Rex","categoryId":1}'],
    ['access_token', '{"access_token":"x","name":"Rex","categoryId":1}'],
    ['fields in another case', '{"Name":1,"STATUS":1,"name":"Rex","categoryId":1}'],
    ['numbers out of range', '{"a":1e999,"b":0.5,"name":"Rex","categoryId":1}'],
  ])('ignores the unknown field: %s', async (_what, body) => {
    expect(await create(body)).toBe('"name":"Rex","categoryId":1,"status":"available"}');
  });

  it('takes no id from the body', async () => {
    const answer = await service.api
      .post('/v1/pets')
      .send({ id: 4711, name: 'Rex', categoryId: 1 })
      .expect(201);
    expect(answer.body.id).not.toBe(4711);
  });

  it.each([
    '{"name":"other","name":"Rex","categoryId":1}',
    '{"name":null,"categoryId":[],"categoryId":1,"name":"Rex"}',
    '{"name":"Rex","categoryId":1,"status":null,"status":"available"}',
    '{"n\\u0061me":"other","name":"Rex","categoryId":1}',
  ])('takes the last value of a repeated key: %s', async (body) => {
    expect(await create(body)).toBe('"name":"Rex","categoryId":1,"status":"available"}');
  });

  it.each([
    'application/json',
    'Application/JSON',
    'application/json;charset=utf-8',
    'application/json; charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json ; Charset=Utf-8',
    'application/json;',
    'application/json; ; \t;charset=utf-8 ;',
    'application/json; charset="utf-8"; a=";\\""',
  ])('takes the media type %s', async (type) => {
    expect(await create(REX, { 'Content-Type': type })).toContain('"Rex"');
  });

  it.each(['', 'identity', 'Identity'])(
    'takes the Content-Encoding %j for none',
    async (coding) => {
      expect(await create(REX, { ...JSON_TYPE, 'Content-Encoding': coding })).toContain('"Rex"');
    },
  );

  it.each([
    ['UTF-8', Buffer.from(named('Ünïcödé 😀')), '"Ünïcödé 😀"'],
    ['a leading BOM', Buffer.from(`\ufeff${REX}`), '"Rex"'],
    ['white space around', Buffer.from(`\r\n\t ${REX} \n`), '"Rex"'],
  ])('takes a body of %s', async (_what, body, name) => {
    expect(await create(body)).toContain(`"name":${name}`);
  });

  it.each([
    ['with its length', JSON_TYPE],
    ['in chunks', { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' }],
  ])('takes a body of 16,384 bytes %s', async (_how, headers) => {
    expect(await create(REX.padEnd(16_384), headers)).toContain('"Rex"');
  });

  it.each([
    ['arrays', '['.repeat(31) + ']'.repeat(31)],
    ['objects', '{"a":'.repeat(30) + '{}' + '}'.repeat(30)],
  ])('takes a body nested 32 levels deep in %s', async (_what, value) => {
    expect(await create(`{"x":${value},"name":"Rex","categoryId":1}`)).toContain('"Rex"');
  });

  it('has committed the animal when it answers', async () => {
    const { body } = await service.api.post('/v1/pets').send({ name: 'kept', categoryId: 1 });
    const rows = await service.query('select name from pets where id = $1', [body.id]);
    expect(rows).toEqual([{ name: 'kept' }]);
  });
});
