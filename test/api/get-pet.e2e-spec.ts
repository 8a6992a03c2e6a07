import { expectError, nextPage } from '../support/answers.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

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
    const { text } = await service.api.get(`/v1/pets/${id}`).expect(200);
    expect(text).toBe(`{"id":${id},"name":"pet ${id}","categoryId":${id},"status":"sold"}`);
  });

  it.each([
    '9'.repeat(1000),
    // int64.spec.ts has more of these.
    ...'2 -2 9007199254740992 9223372036854775806 9223372036854775808 01 %2B1 1.0 %201'.split(' '),
    ...'1%0A 1%00 1%2F5 1;5 :petId * % %zz %ff %E0%A4%A %ED%A0%80 %E0%80%80 %F4%90%80%80'.split(
      ' ',
    ),
    ..."1'-- null __proto__".split(' '),
  ])('rejects with 404 what identifies no animal: %s', async (petId) => {
    const answer = await send(service, { method: 'GET', path: `/v1/pets/${petId}` });
    expectError(answer, 404, 'pet_not_found');
  });

  it.each(['1000', '2', '9223372036854775808'])(
    'announces its removal in the response for %s, found or not',
    async (petId) => {
      const { headers } = await service.api.get(`/v1/pets/${petId}`);
      expect(headers).toMatchObject({
        deprecation: `@${Date.UTC(2026, 10, 19) / 1000}`,
        sunset: 'Thu, 05 Dec 2030 00:00:00 GMT',
        link: linksAt(''),
      });
    },
  );
});

describe.each<[Record<string, string>, base: string, links: string, page: number]>([
  [{ DOCS: 'off' }, '/v1', '</v1/pets>; rel="successor-version"', 404],
  [
    { PUBLIC_BASE_URL: 'http://example.org:8080/store/v1' },
    'http://example.org:8080/store/v1',
    linksAt('http://example.org:8080/store'),
    200,
  ],
])('with %j, the addresses in responses', (variables, base, links, page) => {
  const service = serviceOfTests(variables);

  it('lead clients to new animals, next pages and what replaces getPet, whatever Host says', async () => {
    const elsewhere = { Host: 'elsewhere.example', 'X-Forwarded-Host': 'elsewhere.example' };
    for (const id of [1, 2]) {
      const pet = { name: 'Rex', categoryId: 1, status: 'sold' };
      const { headers } = await service.api.post('/v1/pets').set(elsewhere).send(pet).expect(201);
      expect(headers['location']).toBe(`${base}/pets/${id}`);
    }
    await service.query('insert into orders (pet_id) values (1), (2)');
    for (const path of ['/pets?limit=1&status=sold', '/store/orders?limit=1']) {
      const next = nextPage(await service.api.get(`/v1${path}`).set(elsewhere))!;
      expect(next).toMatch(`${base}${path}&cursor=`);
      const { body } = await service.api.get(next.replace(base, '/v1')).expect(200);
      expect(body).toMatchObject([{ id: 2 }]);
    }
    const { headers } = await service.api.get('/v1/pets/1').set(elsewhere).expect(200);
    expect(headers['link']).toBe(links);
    await service.anonymous.get('/docs/guides/deprecation').expect(page);
  });
});
