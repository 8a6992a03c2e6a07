import fc from 'fast-check';
import { expectError } from '../support/answers.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

/** Keys that mean something to JavaScript, to class-transformer or to class-validator. */
const KEYS =
  'constructor __proto__ prototype toString valueOf hasOwnProperty then toJSON length __defineGetter__ categoryId.constructor';
const VALUES = '"x" 1 null {} [] {"name":"x"} {"constructor":"x"} {"then":1}'.split(' ');
const MEMBERS = KEYS.split(' ').flatMap((key) => VALUES.map((value) => `"${key}":${value}`));

describe('createPet with odd bodies', () => {
  const service = serviceOfTests();

  const create = (body: string | Uint8Array) =>
    send(service, { headers: { 'Content-Type': 'application/json' }, body });

  it.each(MEMBERS)(
    'ignores a key with another meaning as any unknown field: %s',
    async (member) => {
      for (const body of [
        `{${member},"name":"Rex","categoryId":1}`,
        `{"name":"Rex","categoryId":1,${member}}`,
        `{"name":"Rex","categoryId":1,"unknown":{${member}}}`,
        `{"name":"Rex","categoryId":1,"unknown":[[{${member}}]]}`,
      ]) {
        const { status, text } = await create(body);
        expect([status, text.replace(/\d+/, '')]).toEqual([
          201,
          '{"id":,"name":"Rex","categoryId":1,"status":"available"}',
        ]);
      }
    },
  );

  it.each(MEMBERS)('takes no object for a value: {%s}', async (member) => {
    for (const [body, field] of [
      [`{"name":{${member}},"categoryId":1}`, 'name'],
      [`{"name":[{${member}}],"categoryId":1}`, 'name'],
      [`{"name":"Rex","categoryId":{${member}}}`, 'categoryId'],
      [`{"name":"Rex","categoryId":{"a":{${member}}}}`, 'categoryId'],
      [`{"name":"Rex","categoryId":1,"status":{${member}}}`, 'status'],
    ] as const) {
      expectError(await create(body), 400, 'invalid_request', [field]);
    }
  });

  it('takes no field from __proto__', async () => {
    const answer = await create('{"__proto__":{"name":"Rex","categoryId":1}}');
    expectError(answer, 400, 'invalid_request', ['name', 'categoryId']);
  });

  const fields = { name: fc.jsonValue(), categoryId: fc.jsonValue(), status: fc.jsonValue() };
  it.each<[string, number, fc.Arbitrary<string | Uint8Array>]>([
    [
      'JSON values in its fields',
      500,
      fc.record(fields, { requiredKeys: [] }).map((pet) => JSON.stringify(pet)),
    ],
    ['bytes', 200, fc.uint8Array({ maxLength: 100 })],
  ])('answers 201 or 400 to any %s', (_what, numRuns, bodies) =>
    fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const { status, text } = await create(body);
        expect([status, ...Object.keys(JSON.parse(text))]).toEqual(
          status === 201
            ? [201, 'id', 'name', 'categoryId', 'status']
            : [400, 'code', 'message', 'status'],
        );
      }),
      { numRuns },
    ),
  );
});
