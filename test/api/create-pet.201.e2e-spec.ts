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

  it.each([
    ['ignores unknown fields', '{"access_token":"x","Name":1,"STATUS":1,"a":1e999,'],
    [
      'takes the last value of a repeated key',
      '{"name":null,"categoryId":[],"n\\u0061me":"other",',
    ],
  ])('%s', async (_title, start) => {
    expect(await create(`${start}${REX.slice(1)}`)).toBe(STORED_REX);
  });

  it.each(['1.0', '0.1e1', '10e-1'])('reads the categoryId %s by its value', async (digits) => {
    expect(await create(`{"name":"Rex","categoryId":${digits}}`)).toBe(STORED_REX);
  });

  // They mean something to JavaScript, to class-transformer or to class-validator.
  it.each(
    'constructor __proto__ prototype toString valueOf hasOwnProperty then toJSON length __defineGetter__ categoryId.constructor'.split(
      ' ',
    ),
  )('ignores the unknown field %s, whatever its value', async (key) => {
    for (const value of '"x" 1 null {} [] {"name":"x"} {"constructor":"x"} {"then":1}'.split(' ')) {
      const member = `"${key}":${value}`;
      expect(await create(`{${member},${REX.slice(1)}`)).toBe(STORED_REX);
      expect(await create(`{"unknown":[[{${member}}]],${REX.slice(1)}`)).toBe(STORED_REX);
    }
  });

  it.each([
    'application/json',
    'Application/JSON',
    'application/json ; Charset=Utf-8',
    'application/json; ; \t;charset=utf-8 ;',
    'application/json; charset="utf-8"; a=";\\""',
  ])('takes the media type %s', async (type) => {
    expect(await create(REX, { 'Content-Type': type })).toBe(STORED_REX);
  });

  it.each(['', 'identity', 'Identity'])('takes no Content-Encoding: %j', async (coding) => {
    expect(await create(REX, { ...JSON_TYPE, 'Content-Encoding': coding })).toBe(STORED_REX);
  });

  const chunked = { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' };
  it.each<[string, string, Record<string, string>?]>([
    ['with a leading BOM', `\ufeff${REX}`],
    ['of 16,384 bytes with its length', REX.padEnd(16_384)],
    ['of 16,384 bytes in chunks', REX.padEnd(16_384), chunked],
  ])('takes a body %s', async (_what, body, headers = JSON_TYPE) => {
    expect(await create(Buffer.from(body), headers)).toBe(STORED_REX);
  });

  it.each<[string, (i: number) => object]>([
    ['identical', () => ({ name: 'twin', categoryId: 1, status: 'pending' })],
    ['different', (i) => ({ name: `pet ${i}`, categoryId: i - 150, status: 'sold' })],
  ])(
    'gives each of 300 %s animals at once its own content and id, whatever id was sent',
    async (_what, pet) => {
      await service.query('truncate pets cascade');
      const answers = await Promise.all(
        Array.from({ length: 300 }, (_, i) =>
          service.api.post('/v1/pets').send({ id: 4711, ...pet(i) }),
        ),
      );
      answers.forEach(({ status, body, headers }, i) => {
        expect([status, body]).toEqual([201, { id: expect.any(Number), ...pet(i) }]);
        expect(headers['location']).toBe(`/v1/pets/${body.id}`);
      });
      const rows = await service.query(
        'select id::int, name, category_id::int as "categoryId", status from pets order by id',
      );
      expect(rows).toEqual(answers.map(({ body }) => body).toSorted((a, b) => a.id - b.id));
    },
  );
});
