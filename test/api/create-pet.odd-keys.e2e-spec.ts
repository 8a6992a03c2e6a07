import { expectError } from '../support/answers.js';
import { exchange, request } from '../support/raw-http.js';
import { serviceOfTests } from '../support/service.js';

/** Keys that mean something to JavaScript, to class-transformer or to class-validator. */
const KEYS = [
  'constructor',
  '__proto__',
  'prototype',
  'toString',
  'valueOf',
  'hasOwnProperty',
  'then',
  'toJSON',
  'length',
  '__defineGetter__',
  'categoryId.constructor',
];
const VALUES = [
  '"x"',
  '1',
  'null',
  '{}',
  '[]',
  '{"name":"x"}',
  '{"constructor":"x"}',
  '{"then":1}',
];
const CASES = KEYS.flatMap((key) => VALUES.map((value) => [key, value] as const));

describe('a key of a body that has a meaning elsewhere', () => {
  const service = serviceOfTests();

  const create = (body: string) => {
    const headers = [`Authorization: Bearer ${service.key}`, 'Content-Type: application/json'];
    return exchange(service.port, request('POST /v1/pets', headers, body));
  };

  it.each(CASES)('is ignored as any unknown field: "%s":%s', async (key, value) => {
    for (const body of [
      `{"${key}":${value},"name":"Rex","categoryId":1}`,
      `{"name":"Rex","categoryId":1,"${key}":${value}}`,
      `{"name":"Rex","categoryId":1,"unknown":{"${key}":${value}}}`,
      `{"name":"Rex","categoryId":1,"unknown":[[{"${key}":${value}}]]}`,
    ]) {
      const answer = await create(body);
      expect([answer.status, JSON.parse(answer.text)]).toEqual([
        201,
        { id: expect.any(Number), name: 'Rex', categoryId: 1, status: 'available' },
      ]);
    }
  });

  it.each(CASES)('makes no value of a field valid: {"%s":%s}', async (key, value) => {
    const nested = `{"${key}":${value}}`;
    for (const [body, field] of [
      [`{"name":${nested},"categoryId":1}`, 'name'],
      [`{"name":[${nested}],"categoryId":1}`, 'name'],
      [`{"name":"Rex","categoryId":${nested}}`, 'categoryId'],
      [`{"name":"Rex","categoryId":{"${key}":${nested}}}`, 'categoryId'],
      [`{"name":"Rex","categoryId":1,"status":${nested}}`, 'status'],
    ] as const) {
      expectError(await create(body), 400, 'invalid_request', [field]);
    }
  });

  it('stands for no field that is missing', async () => {
    const answer = await create('{"__proto__":{"name":"Rex","categoryId":1}}');
    expectError(answer, 400, 'invalid_request', ['name', 'categoryId']);
  });
});
