import { expectError } from '../support/answers.js';
import { send } from '../support/send.js';
import { serviceOfTests, startService } from '../support/service.js';

const IDS = '-9223372036854775808 -1 0 1000 9007199254740993 9223372036854775807'.split(' ');

const linksAt = (root: string) =>
  `<${root}/v1/pets>; rel="successor-version", ` +
  `<${root}/docs/guides/deprecation>; rel="deprecation"; type="text/html"`;

describe('getPet', () => {
  const service = serviceOfTests();
  beforeAll(() =>
    service.query(
      `insert into pets (id, name, category_id, status)
       select id, 'pet ' || id, id, 'sold' from unnest($1::bigint[]) as id`,
      [IDS],
    ),
  );

  it.each(IDS)('returns the animal whose id is %s', async (id) => {
    const { text, headers } = await service.api.get(`/v1/pets/${id}`).expect(200);
    expect(text).toBe(`{"id":${id},"name":"pet ${id}","categoryId":${id},"status":"sold"}`);
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
  });

  it('answers each of 300 requests at once with its own animal', async () => {
    const ids = Array.from({ length: 300 }, (_, i) => [0, 1000, 2][i % 3]);
    const answers = await Promise.all(ids.map(async (id) => service.api.get(`/v1/pets/${id}`)));
    expect(answers.map(({ status, body }) => [status, body.name])).toEqual(
      ids.map((id) => (id === 2 ? [404, undefined] : [200, `pet ${id}`])),
    );
  });

  it.each([
    '9'.repeat(1000),
    ...'2 -2 9007199254740992 9223372036854775806'.split(' '),
    ...'9223372036854775808 01 -0 +1 %2B1 1.0 1e0 0x10 %201 1%0A 1%00 1%2F5 1;5'.split(' '),
    ...":petId * % %zz %ff %E0%A4%A 1'-- null __proto__".split(' '),
  ])('rejects with 404 what identifies no animal: %s', async (petId) =>
    expectError(
      await send(service, { method: 'GET', path: `/v1/pets/${petId}` }),
      404,
      'pet_not_found',
    ),
  );

  it.each([
    ['1000', 200],
    ['2', 404],
    ['9223372036854775808', 404],
  ])('announces its removal in the response for %s: %s', async (petId, status) => {
    for (const method of ['get', 'head'] as const) {
      const { headers } = await service.api[method](`/v1/pets/${petId}`).expect(status);
      expect(headers['deprecation']).toBe(`@${Date.UTC(2026, 10, 19) / 1000}`);
      expect(headers['sunset']).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
      expect(headers['link']).toBe(linksAt(''));
    }
  });

  // Last: the strategies of passport are the process's, so an unknown key is checked by the service that started last.
  it.each([
    [{ PUBLIC_BASE_URL: 'https://animals.example/v1' }, linksAt('https://animals.example'), 200],
    [{ DOCS: 'off' }, '</v1/pets>; rel="successor-version"', 404],
  ] as [Record<string, string>, string, number][])(
    'names listPets and, if it is there, the page that says more, where clients reach them: %j',
    async (variables, link, page) => {
      const other = await startService(variables);
      const { headers } = await other.api.get('/v1/pets/1').expect(404);
      await other.anonymous.get('/docs/guides/deprecation').expect(page);
      await other.stop();
      expect(headers['link']).toBe(link);
    },
  );
});
