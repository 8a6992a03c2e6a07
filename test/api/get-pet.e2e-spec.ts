import { ApiError } from '../../src/errors/api-error.js';
import { Gate } from '../../src/gate/gate.js';
import { expectError, nextPage } from '../support/answers.js';
import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const list = (text: string) => text.trim().split(/\s+/);
const IDS = list('-9223372036854775808 -1 0 1000 9007199254740993 9223372036854775807');

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

  // The document has Deprecation and Sunset, and every response is compared with it.
  it.each(IDS)('returns the animal whose id is %s, and what replaces getPet', async (id) => {
    const { text, headers } = await service.api.get(`/v1/pets/${id}`).expect(200);
    expect(headers['link']).toBe(linksAt(''));
    expect(text).toContain(`{"id":${id},"name":"pet ${id}","categoryId":${id},"status":"sold"`);
  });

  it('returns to each of many requests at once its own animal, also if a double holds two ids as one', async () => {
    const near = IDS.flatMap((id) => [BigInt(id) - 1n, BigInt(id), BigInt(id) + 1n]).map(String);
    const all = [...near, ...near];
    const answers = await Promise.all(all.map((id) => service.api.get(`/v1/pets/${id}`)));
    expect(answers.map(({ text }) => /^\{"id":(-?\d+)/.exec(text)?.[1])).toEqual(
      all.map((id) => (IDS.includes(id) ? id : undefined)),
    );
  });

  it.each([
    '9'.repeat(1000),
    ...list(`
      2 -2 9007199254740992 9223372036854775806 9223372036854775808 -9223372036854775809
      -0 00 01 -01 %2B1 --1 - 1. .1 1.0 1e0 0x1 1n 1_0 %D9%A1 %EF%BC%91 NaN Infinity null __proto__
      %201 1%20 1%0A 1%00 1%2F5 1;5 1'-- :petId * % %zz %ff %E0%A4%A %ED%A0%80 %E0%80%80 %F4%90%80%80`),
  ])('rejects with 404 what identifies no animal: %s', async (petId) => {
    const answer = await send(service, { method: 'GET', path: `/v1/pets/${petId}` });
    expectError(answer, 404, 'pet_not_found');
  });

  it.each<[number, ApiError['code'], Error]>([
    [503, 'unavailable', new ApiError('unavailable', 'Too many.', { because: 'over_share' })],
    [500, 'internal_error', new Error('a mistake')],
  ])(
    'is not needed for a %i, which then says nothing of what replaces it, as documented',
    async (status, code, error) => {
      const admit = jest.spyOn(service.get(Gate), 'admit').mockImplementationOnce(() => {
        throw error;
      });
      const answer = await service.api.get('/v1/pets/1');
      admit.mockRestore();
      expectError(answer, status, code);
      expect(Object.keys(answer.headers).join()).not.toMatch(/link|deprecation|sunset/);
    },
  );
});

describe.each<[Record<string, string>, base: string, links: string]>([
  [{ DOCS: 'off' }, '/v1', '</v1/pets>; rel="successor-version"'],
  [
    { PUBLIC_BASE_URL: 'http://example.org:8080/store/v1' },
    'http://example.org:8080/store/v1',
    linksAt('http://example.org:8080/store'),
  ],
])('with %j, the addresses in responses', (variables, base, links) => {
  const service = serviceOfTests(variables);

  it('lead clients to new animals, next pages of the same query and what replaces getPet, whatever Host says', async () => {
    const elsewhere = { Host: 'elsewhere.example', 'X-Forwarded-Host': 'elsewhere.example' };
    for (const id of [1, 2]) {
      const pet = { name: 'Rex', categoryId: 1, status: 'sold' };
      const { headers } = await service.api.post('/v1/pets').set(elsewhere).send(pet).expect(201);
      expect(headers['location']).toBe(`${base}/pets/${id}`);
    }
    await service.query('insert into orders (pet_id) values (1), (2)');
    for (const path of ['/pets?limit=1&status=sold', '/store/orders?limit=1']) {
      const page = await service.api.get(`/v1${path}&access_token=x`).set(elsewhere);
      const next = nextPage(page)!;
      expect(next.replace(/[\w-]{16}$/, '')).toBe(`${base}${path}&cursor=`);
      const { body } = await service.api.get(next.replace(base, '/v1')).expect(200);
      expect(body).toMatchObject([{ id: 2 }]);
    }
    const { headers } = await service.api.get('/v1/pets/1').set(elsewhere).expect(200);
    expect(headers['link']).toBe(links);
  });
});
