import { send } from '../support/send.js';
import { serviceOfTests } from '../support/service.js';

const MIN = '-9223372036854775808';
const MAX = '9223372036854775807';

describe('listPets 200', () => {
  const service = serviceOfTests();
  beforeEach(() => service.query('truncate pets cascade'));

  const insertNumbered = (count: number) =>
    service.query(
      `insert into pets (id, name, category_id, status)
       select n, 'pet ' || n, n, (array['available', 'pending', 'sold'])[n % 3 + 1]
         from generate_series(1, $1::int) as n`,
      [count],
    );
  const ids = async (query: string): Promise<number[]> => {
    const answer = await service.api.get(`/v1/pets${query}`).expect(200);
    return answer.body.map(({ id }: { id: number }) => id);
  };
  const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

  it('answers an empty array without a Link where there are no animals', async () => {
    const answer = await service.api.get('/v1/pets').expect(200);
    expect(answer.text).toBe('[]');
    expect(answer.headers).not.toHaveProperty('link');
  });

  it('answers a bare array of pets, each with exactly the fields of Pet', async () => {
    await service.query(
      `insert into pets (id, name, category_id, status) values (2, 'b "', -3, 'sold'), (1, 'a', 0, 'pending')`,
    );
    const answer = await service.api.get('/v1/pets').expect(200);
    expect(answer.text).toBe(
      '[{"id":1,"name":"a","categoryId":0,"status":"pending"},' +
        '{"id":2,"name":"b \\"","categoryId":-3,"status":"sold"}]',
    );
  });

  it('answers 20 animals where no limit is given', async () => {
    await insertNumbered(21);
    expect(await ids('')).toEqual(upTo(20));
  });

  it.each([1, 2, 9, 10, 19, 20, 21, 99, 100])('answers at most limit=%s animals', async (limit) => {
    await insertNumbered(101);
    expect(await ids(`?limit=${limit}`)).toEqual(upTo(limit));
  });

  it('orders by ascending id over the whole range of int64, its edges on the first page', async () => {
    const inOrder = [MIN, '-9007199254740993', '-1', '0', '1', '9007199254740993', MAX];
    for (const id of inOrder.toReversed()) {
      await service.query(`insert into pets (id, name, category_id) values ($1, 'edge', $1)`, [id]);
    }
    const answer = await service.api.get('/v1/pets').expect(200);
    const pets = inOrder.map(
      (id) => `{"id":${id},"name":"edge","categoryId":${id},"status":"available"}`,
    );
    expect(answer.text).toBe(`[${pets.join(',')}]`);
    expect(answer.headers).not.toHaveProperty('link');
  });

  it.each([
    ['available', [3, 6, 9]],
    ['pending', [1, 4, 7]],
    ['sold', [2, 5, 8]],
  ])('answers only animals with status=%s, by id', async (status, expected) => {
    await insertNumbered(9);
    const { body } = await service.api.get(`/v1/pets?status=${status}`).expect(200);
    expect(body.map((pet: { id: number; status: string }) => [pet.id, pet.status])).toEqual(
      expected.map((id) => [id, status]),
    );
  });

  it('answers an empty array for a status that no animal has', async () => {
    await service.query(`insert into pets (name, category_id) values ('a', 1)`);
    const answer = await service.api.get('/v1/pets?status=sold').expect(200);
    expect(answer.text).toBe('[]');
  });

  it.each([
    'page=2',
    'offset=1',
    'after=1',
    'Limit=1',
    'LIMIT=1',
    'Status=sold',
    'id=1&id=2',
    'sort[]=name',
    'limit]=1',
    'access_token=x',
    '__proto__=1',
    '__proto__[limit]=1',
    'constructor=1',
    'toString[a]=1',
    '=1',
    '%',
    '&&',
  ])('ignores the unknown parameter %s', async (query) => {
    await insertNumbered(3);
    expect(await ids(`?${query}`)).toEqual([1, 2, 3]);
  });

  it.each(['%6Cimit=2', 'l%69mit=%32'])('reads %s as limit=2', async (query) => {
    await insertNumbered(3);
    expect(await ids(`?${query}`)).toEqual([1, 2]);
  });

  it('reads a limit that follows a thousand unknown parameters', async () => {
    await insertNumbered(3);
    expect(await ids(`?${'x&'.repeat(1100)}limit=2`)).toEqual([1, 2]);
  });

  it.each([
    ['If-None-Match', '*'],
    ['If-Modified-Since', 'Fri, 31 Dec 2100 00:00:00 GMT'],
  ])('answers in full whatever %s says', async (name, value) => {
    await service.api.get('/v1/pets').set(name, value).expect(200, []);
  });

  it.each([
    ['JSON', { 'Content-Type': 'application/json' }, '{"limit":1}'],
    ['broken JSON', { 'Content-Type': 'application/json' }, '{'],
    ['an unknown type', { 'Content-Type': 'text/plain' }, 'x'],
    ['a coding', { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }, 'x'],
    ['16 KiB and a byte', { 'Content-Type': 'application/json' }, ' '.repeat(16 * 1024 + 1)],
    ['chunks', { 'Transfer-Encoding': 'chunked' }, 'some words in two chunks'],
  ])('ignores a body of %s', async (_what, headers, body) => {
    await insertNumbered(2);
    const answer = await send(service, { method: 'GET', headers, body });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toHaveLength(2);
  });
});
