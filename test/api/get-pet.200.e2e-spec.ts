import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

describe('getPet 200', () => {
  const service = serviceOfTests();
  beforeEach(() => service.query('truncate pets cascade'));

  it.each([
    '-9223372036854775808',
    '-9007199254740993',
    '-1',
    '0',
    '1',
    '9007199254740993',
    '9223372036854775807',
  ])('answers with the animal whose id is %s', async (id) => {
    await service.query(
      `insert into pets (id, name, category_id, status)
       select id, 'pet ' || id, $1, 'sold' from unnest(array[$1::bigint, 9007199254740992, 2]) as id`,
      [id],
    );
    const { text, headers } = await service.api.get(`/v1/pets/${id}`).expect(200);
    expect(text).toBe(`{"id":${id},"name":"pet ${id}","categoryId":${id},"status":"sold"}`);
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
  });

  it.each<[string, string, Record<string, string>, string?]>([
    ['a query', '?limit=0&status=gone&petId=2', {}],
    ['an Accept of text/html', '', { Accept: 'text/html' }],
    ['a body of broken JSON', '', { 'Content-Type': 'application/json' }, '{'],
    ['a body of another type', '', { 'Content-Type': 'text/plain', 'Content-Encoding': 'br' }, 'x'],
    ['a body of 20,000 bytes', '', {}, ' '.repeat(20_000)],
  ])('ignores %s', async (_what, query, headers, body = '') => {
    await service.query(`insert into pets (id, name, category_id) values (1, 'Rex', 1)`);
    const message = { method: 'GET', path: `/v1/pets/1${query}`, headers, body };
    const answer = await send(service, message);
    expect(answer).toMatchObject({
      status: 200,
      text: '{"id":1,"name":"Rex","categoryId":1,"status":"available"}',
      headers: { 'content-type': 'application/json; charset=utf-8' },
    });
  });

  it('answers each of 300 requests at once with its own animal', async () => {
    await service.query(
      `insert into pets (id, name, category_id) select n, 'pet ' || n, -n from generate_series(0, 99) as n`,
    );
    const ids = Array.from({ length: 300 }, (_, i) => i % 150);
    const answers = await Promise.all(ids.map(async (id) => service.api.get(`/v1/pets/${id}`)));
    expect(answers.map(({ status, body }) => [status, body.name])).toEqual(
      ids.map((id) => (id < 100 ? [200, `pet ${id}`] : [404, undefined])),
    );
  });
});
